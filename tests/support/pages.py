"""What pages of the documents hold: code, by its language, and rows of tables."""

import re
from pathlib import Path

from tests.support import documents
from tests.support.places import DOCS
from tests.support.processes.forked_process import run_forked


def read(page: str) -> str:
    """A page's Markdown, by its place below docs/."""
    return (DOCS / page).read_text("utf-8")


def blocks(page: str, *languages: str) -> list[str]:
    """Code of some languages, in the order of the page."""
    found = [b.text for b in documents.blocks(read(page)) if b.language in languages]
    assert found, (page, languages)
    return found


def first_cells(text: str) -> list[str]:
    """The code in the first cell of every row."""
    return re.findall(r"^\| `([^`]+)`", text, re.MULTILINE)


def run_python(code: str, folder: Path) -> str:
    """Run code in a folder in a process of its own; what it printed."""
    file = folder / "page.py"
    file.write_text(code, "utf-8")
    done = run_forked(["python", file.name], folder)
    assert done.returncode == 0, done.stderr
    return done.stdout
