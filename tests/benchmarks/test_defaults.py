"""What init's projects are judged by: items, and who is in time."""

import numpy as np
import pytest

from benchmarks.learners.baselines import BASELINES
from benchmarks.learners.default_sets import QUICK, DefaultSet, divide
from benchmarks.learners.defaults import (
    A_FIFTH,
    A_SECOND,
    BUDGETS,
    Account,
    Comparison,
    line,
)

pytestmark = pytest.mark.jit  # of items and shares: no kernels


def comparison(own_right: float) -> Comparison:
    """Baselines that are right in 0.8 and 0.9 of cases, and an index."""
    made = Comparison("tables", [], [], quick=True)
    shares = dict.fromkeys(BUDGETS, own_right)
    shares |= dict(zip(BASELINES["tables"], (0.8, 0.9), strict=True))
    for name, share in shares.items():
        right = np.arange(1000) < 1000 * share
        budgets = [50.0] if name in BUDGETS else []
        made.accounts[name] = Account([right], [np.arange(1000.0)], [60.0], budgets)
    return made


@pytest.mark.parametrize(
    ("right", "held"),
    [(0.9, "yes, yes"), (0.892, "yes, yes"), (0.889, "no, no"), (0.95, "yes, yes")],
)
def test_goals_are_held_by_points_behind_the_best_baseline(
    right: float, held: str
) -> None:
    table = comparison(right).table()
    best = list(BASELINES["tables"])[1]
    assert table[best]["goal held?"] == "best"
    assert table[A_FIFTH]["behind"] == pytest.approx(100 * (0.9 - right))
    assert line(table)["goal held?"] == held
    assert line(table)["best baseline"] == best
    assert line(table)["own"] == table[A_SECOND]["accuracy"] == pytest.approx(right)


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
