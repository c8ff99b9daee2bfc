"""The how-to about embeddings from a service, from an empty folder."""

from pathlib import Path

import pytest

from tests.support import documents
from tests.support.pages import read

pytestmark = pytest.mark.jit

QUICK = {
    "# PROJECT.toml\n": (
        "# PROJECT.toml\nworkers = 1\nsearch = { budget_s = 0.3 }\n"
        "costs = { items = 12, repeats = 2 }\n"
    ),
    '"tickets.jsonl", 2000': '"tickets.jsonl", 600',
    '"later.jsonl", 500': '"later.jsonl", 100',
}


def test_a_newcomer_gets_answers_with_vectors(tmp_path: Path) -> None:
    # what has come in time depends on how busy the machine is
    page = documents.with_any_fetch_state(read("how-to/fetch-vectors.md"))
    page, _, _ = page.partition("## A real service")
    with documents.Reader(tmp_path, ("hashed_words", "meaning"), QUICK) as reader:
        reader.follow(page)
    assert reader.shown == 6
