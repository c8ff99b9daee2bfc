"""What init's projects are judged by: items, baselines, and who is in time."""

import json
import sys
from typing import Any

import numpy as np
import pytest

from benchmarks.learners import bench_defaults
from benchmarks.learners.baselines import BASELINES
from benchmarks.learners.bench_defaults import Account
from benchmarks.learners.default_sets import QUICK, SETS, DefaultSet, divide

pytestmark = pytest.mark.jit  # whole builds and rivals: kernels have tests of their own


def told(
    kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> dict[str, Any]:
    """What the script prints in short."""
    given = ["bench_defaults", "--quick", "--json", "--only", kind]
    monkeypatch.setattr(sys, "argv", given)
    bench_defaults.main()
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("kind", SETS)
def test_every_kind_runs_in_short(
    kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("lightgbm")
    facts = told(kind, monkeypatch, capsys)
    (name,) = QUICK[kind]
    table = facts[f"{kind}: {name}"]
    within = bench_defaults.BUDGETS
    assert [*table] == [*BASELINES[kind], *within]
    assert "best" in {row.get("goal held?") for row in table.values()}
    best = next(row for row in table.values() if row.get("goal held?") == "best")
    assert best["accuracy"] == max(table[one]["accuracy"] for one in BASELINES[kind])
    for one in within:
        row = table[one]
        behind = 100 * (best["accuracy"] - row["accuracy"])
        assert row["behind"] == pytest.approx(behind, abs=1e-9)
    assert table[within[0]]["budget ms"] < table[within[1]]["budget ms"] < 1000


@pytest.mark.parametrize(
    "given", [one for own in QUICK.values() for one in own.values()]
)
def test_nothing_that_is_kept_is_built_of(given: DefaultSet) -> None:
    own, kept = given.load()
    assert len(own) > len(kept) > 0
    for item, _ in kept:
        assert all(item != other for other, _ in own)


def test_division_takes_each_item_once_wherever_it_stands() -> None:
    rng = np.random.default_rng(0)
    items = [(f"text {k}", "a") for k in rng.integers(0, 300, 1000).tolist()]
    own, kept = divide(items)
    assert len({*own, *kept}) == len(own) + len(kept) == len({*items})
    again = divide(items[::-1])
    assert [{*part} for part in again] == [{*own}, {*kept}]


def test_errors_are_those_of_shares_and_of_pairs() -> None:
    rng = np.random.default_rng(1)
    best, other = rng.random((2, 500)) < [[0.9], [0.8]]
    took = np.arange(500.0)
    rows = [Account([one], [took], [60.0], [249.0]) for one in (best, other)]
    facts = rows[1].facts(rows[0])
    share = np.count_nonzero(other) / 500
    assert facts["accuracy"] == pytest.approx(share)
    assert facts["+-"] == pytest.approx(np.sqrt(share * (1 - share) / 500))
    won, lost = np.sum(other & ~best), np.sum(best & ~other)
    assert facts["behind"] == pytest.approx((lost - won) / 5)
    spread = np.sqrt((lost + won) / 500 - ((lost - won) / 500) ** 2)
    assert facts["+- "] == pytest.approx(100 * spread / np.sqrt(500))
    assert facts["minutes"] == 1
    assert facts["in time"] == 0.5
