"""Reports say what has come of each fetch, however many there are."""

import io

import pytest
from rich.console import Console

from polydom.indexer.index.fetches.fetch_facts import ToldFetch, ToldFetches, ToldWait
from polydom.server.cli.reports.fetch_report import show_fetches


def shown(count: int) -> list[str]:
    """The lines of the table of an index with this many fetches, 80 places wide."""
    fetches = [
        ToldFetch(f"fetch{k}", ["id"], [f"c{k}"], [], {}, 1.0, 2.0, 3.0, 0.0)
        for k in range(count)
    ]
    came = [k / 100 for k in range(count)]
    told = ToldFetches(
        fetches, 200, [ToldWait(1.0, came, 0.7), ToldWait(20.0, came, 0.8)]
    )
    out = io.StringIO()
    show_fetches(told, "accuracy", Console(file=out, width=80))
    return out.getvalue().splitlines()


@pytest.mark.parametrize("count", [2, 16])
def test_each_share_can_be_read(count: int) -> None:
    title, heads, *rows = shown(count)
    assert title.startswith("what has come by then")
    words = " ".join([heads, *rows]).split()
    assert not [word for word in words if "…" in word]
    assert [f"{k}%" in words for k in range(count)] == [True] * count
    assert {f"fetch{k}" for k in range(count)} <= {*words}
    # few fetches are side by side, and many have a line each
    assert len(rows) == (2 if count == 2 else count + 1)
