"""README's numbers are those that were measured, and a command puts them there."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.serving.headline import RESULTS, Answers, main
from benchmarks.serving.headline_table import (
    BEGIN,
    END,
    FIXED,
    PLAIN,
    block,
    promise,
    told,
)
from tests.support.places import ROOT

pytestmark = pytest.mark.jit  # of no kernel
FILES = sorted(RESULTS.glob("*.json"))


def between_marks(text: str) -> str:
    _, begin, rest = text.partition(BEGIN)
    inner, end, _ = rest.partition(END)
    assert begin
    assert end
    return begin + inner + end


def made() -> dict[str, Any]:
    """What a machine might have measured, of two budgets."""
    kinds = ("polydom", "in time", *FIXED)
    rows = [
        {"budget ms": budget_ms, **dict.fromkeys(kinds, share)}
        for budget_ms, share in ((0.5, 0.25), (20.0, 0.9996))
    ]
    facts = {"date": "2026-11-25", "machine": "Z80, 1 cores, Python 3", "load": 0.0}
    own = {"images": 7, "features": 3, "median ms": {"all-features": 12.3}}
    return {"digits": {**facts, **own, "budgets": rows}}


def test_readme_says_what_was_measured() -> None:
    blocks = [block(json.loads(path.read_text())) for path in FILES]
    readme = (ROOT / "README.md").read_text("utf-8")
    assert between_marks(readme) in (blocks or [f"{BEGIN}\n{END}"])
    assert any(promise(json.loads(path.read_text())) in readme for path in FILES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_results_are_shares_that_grow_with_the_budget(path: Path) -> None:
    for facts in json.loads(path.read_text()).values():
        rows = facts["budgets"]
        assert rows == sorted(rows, key=lambda row: row["budget ms"])
        for kind in {**PLAIN, **FIXED}.keys() & rows[0].keys():
            shares = [row[kind] for row in rows]
            assert shares == sorted(shares)  # read off the same answers
            assert all(row[kind] <= row[f"{kind}, in time"] <= 1 for row in rows)
        assert all(row["polydom"] <= row["in time"] <= 1 for row in rows)


def test_tables_and_figure_are_made_of_kept_results(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    picture, document = tmp_path / "headline.svg", tmp_path / "README.md"
    kept = tmp_path / "z80.json"
    kept.write_text(json.dumps(made()))
    monkeypatch.setattr("benchmarks.serving.headline.PICTURE", picture)
    document.write_text(f"before\n\n{BEGIN}\nold\n{END}\n\nafter\n")
    main(["--from", str(kept), "--write", str(document)])
    written = document.read_text()
    assert written == f"before\n\n{block(made())}\n\nafter\n"
    assert "| **polydom** | 0.25 | 0.999 |" in written
    assert "headline`, 2026-11-25, Z80, 1 cores, load before 0.0." in written
    assert b"<svg" in picture.read_bytes()
    document.write_text("no marks")
    with pytest.raises(SystemExit, match="has no <!-- headline -->"):
        main(["--from", str(kept), "--write", str(document)])
    capsys.readouterr()


def test_a_table_with_a_network_says_what_it_takes_alone() -> None:
    facts = made()["digits"]
    times = {"128": {"p50": 3.6, "p99": 4.0}, "224": {"p50": 9.54, "p99": 12.0}}
    rows = [{**row, "whole-224": 0.9} for row in facts["budgets"]]
    told = block({"scenes": {**facts, "network ms": times, "budgets": rows}})
    assert "the network alone takes 3.6 ms at 128 pixels and 9.5 ms at 224" in told
    assert "| the whole network at 224 pixels, FastAPI | 0.9 | 0.9 |" in told


def test_quick_numbers_are_written_nowhere(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--quick", "--write", "README.md"])
    assert "not to be written" in capsys.readouterr().err


def test_a_late_answer_counts_as_none() -> None:
    right = np.array([[[True], [True], [False], [True]]])
    took_ms = np.array([[[1.0], [2.0], [1.0], [9.0]]])
    answers = Answers(right, right, took_ms, took_ms)
    assert answers.within(0, 2.0) == (0.5, 0.75)
    assert answers.within(0, 0.5) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("share", "said"), [(1.0, 1.0), (0.9999, 0.999), (0.99, 0.99), (0.0004, 0.0)]
)
def test_no_share_is_called_all_that_is_not(share: float, said: float) -> None:
    assert told(share) == said
