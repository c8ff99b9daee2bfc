"""Links of the documents lead to files of this checkout.

Those between pages of docs/ are checked by the site's builder, in `make check`.
"""

import re
from pathlib import Path

import pytest

from tests.support.places import DOCS, ROOT

FILES = "https://github.com/polydom/polydom/(?:blob|tree|raw)/main/"
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "benchmarks").rglob("*.md")),
    *sorted(DOCS.rglob("*.md")),
]


def links(page: Path) -> list[str]:
    """Where links and pictures lead, without what is behind #."""
    return re.findall(r"\]\(([^)#\s]+)", page.read_text("utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_files_lead_somewhere(page: Path) -> None:
    for target in links(page):
        if found := re.match(FILES, target):
            assert (ROOT / target[found.end() :]).exists(), target
        elif "://" not in target and not target.startswith("mailto:"):
            assert (page.parent / target).exists(), target
