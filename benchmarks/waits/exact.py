"""Is the expected quality of an answer that waits exact, and the choice the best one?

python -m benchmarks exact

Indexes, arrival times, budgets and sets of sent fetches are drawn. What `Arrivals` and
`PartialLookup` find is compared with trying every row for every draw, with a simulation
of a million draws, and with itself: more time or one fetch more must never lower it.
"""

import argparse
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.indexer import Index
from polydom.indexer.index.column_needs import ColumnNeeds
from polydom.indexer.index.fetches.arrivals import Arrivals
from polydom.indexer.index.fetches.stored_fetches import StoredFetch
from polydom.indexer.index.partial_lookup import PartialLookup
from polydom.indexer.index.stored_features import StoredColumns, StoredFeature
from tests.support.indexes import fetched

from .. import report
from .sources import LAWS
from .tables import FAST, SLOW

TIMES = (0.0, 1.0, 2.0, 3.0, math.inf)  # few, so that draws and waits are often equal
FEATURES = 4
CASES = 100  # of each drawn index
COLUMNS = 6  # whose 64 patterns are tried
BUDGETS = 32  # for each pattern
NEAR = 1e-9
# what the two fetches gain: qualities of nothing, the fast one, the slow one, and both
QUALITIES = (0.80, 0.86, 0.90, 0.92)


def feature(name: str, *columns: str) -> StoredFeature:
    """Return a feature that reads columns."""
    return StoredFeature(name, len(columns), "", False, StoredColumns([*columns]))


def index_of(
    features: Sequence[StoredFeature],
    fetches: Sequence[StoredFetch],
    masks: Sequence[int],
    costs: Sequence[float],
    qualities: Sequence[float],
    draws: NDArray[np.float64],
) -> Index:
    """Return an index of these rows; its package has no models that fit them."""
    base = fetched.make_index().package
    assert base is not None
    package = replace(
        base,
        features=tuple(features),
        masks=np.array(masks, np.uint64),
        fetches=tuple(fetches),
        arrivals=draws,
    )
    curves = np.array(costs, float)[:, None]
    return Index.from_candidates(curves, qualities, (1, 1), package)


def draw_index(rng: np.random.Generator) -> Index:
    """Draw an index whose features read their own columns, and fetched ones."""
    count = int(rng.integers(0, 5))
    fetches = [StoredFetch(f"fetch {u}", ["id"], [f"column {u}"]) for u in range(count)]
    features = []
    for k in range(FEATURES):
        brought = [f"column {u}" for u in range(count) if rng.random() < 0.4]
        features.append(feature(f"feature {k}", "own", *brought))
    others = range(1, 1 << FEATURES)
    masks = [0, *rng.choice(others, rng.integers(0, 9), replace=False).tolist()]
    costs = [0.0, *rng.integers(0, 5, len(masks) - 1).tolist()]
    qualities = [0.0, *(rng.integers(0, 6, len(masks) - 1) / 5).tolist()]
    draws = rng.choice(TIMES, (int(rng.choice([1, 2, 7])), count))
    return index_of(features, fetches, masks, costs, qualities, draws)


def tried(index: Index, budget_s: float, sent: int, after_s: float) -> float:
    """Return the expected quality by trying every row for every draw."""
    package, total = index.package, 0.0
    assert package is not None
    rows = [
        (
            {name for k, f in enumerate(package.features) if mask >> k & 1
             for name in f.reads or ()},
            index.cost_s(row, 1),
            float(index.qualities[row]),
        )
        for row, mask in enumerate(package.masks.tolist())
    ]  # fmt: skip
    for draw in package.arrivals.tolist():
        there = {"own"}
        for u, fetch in enumerate(package.fetches):
            if sent >> u & 1 and draw[u] <= budget_s - after_s:
                there.update(fetch.columns)
        total += max(
            (q for needs, cost, q in rows if needs <= there and cost <= budget_s),
            default=0.0,
        )
    return total / len(package.arrivals)


def drawn_cases(count: int) -> dict[str, Any]:
    """Compare with brute force, and look whether more ever lowers what is expected."""
    rng = np.random.default_rng(0)
    compared, far, lowered, widest = 0, 0, 0, 0.0
    while compared < count:
        index = draw_index(rng)
        arrivals = Arrivals(index)
        for _ in range(CASES):
            budget, more = sorted(rng.choice([*TIMES, 0.5, 1.5], 2).tolist())
            sent, added = rng.integers(0, 16, 2).tolist()
            after = float(rng.choice([0.0, 1.0]))
            quality = arrivals.expected(1, budget, sent=sent, after_s=after)
            gap = abs(quality - tried(index, budget, sent, after))
            widest, far = max(widest, gap), far + (gap > NEAR)
            higher = (
                arrivals.expected(1, more, sent=sent, after_s=after),
                arrivals.expected(1, budget, sent=sent | added, after_s=after),
            )
            lowered += min(higher) < quality - NEAR
            compared += 1
    return {
        "cases": compared,
        "apart from brute force": far,
        "widest gap": widest,
        "lowered by more time or one more fetch": lowered,
    }


def simulated(count: int) -> list[dict[str, Any]]:
    """Compare 200 draws with a million, drawn of them or anew of their law."""
    rng = np.random.default_rng(1)
    laws = [LAWS["log-normal"][name] for name in (FAST, SLOW)]
    draws = np.stack([law.draw(rng, 200) for law in laws], axis=1)
    fresh = np.stack([law.draw(rng, count) for law in laws], axis=1)
    again = draws[rng.integers(0, len(draws), count)]
    fetches = [
        StoredFetch(name, ["id"], [f"column {u}"])
        for u, name in enumerate((FAST, SLOW))
    ]
    features = [feature(f.name, *f.columns) for f in fetches]
    masks = range(4)
    arrivals = Arrivals(index_of(features, fetches, masks, [0.0] * 4, QUALITIES, draws))
    rows = []
    for budget_ms in (1, 2, 5, 10, 20, 50, 100, 200):
        stated = arrivals.expected(1, budget_ms / 1e3)
        facts: dict[str, Any] = {"budget ms": budget_ms, "stated": stated}
        for name, times_s in (("simulated", again), ("of fresh draws", fresh)):
            found = np.array(QUALITIES)[(times_s <= budget_ms / 1e3) @ [1, 2]]
            facts[name] = float(found.mean())
            facts[f"standard errors apart ({name})"] = float(
                abs(found.mean() - stated) / max(found.std() / count**0.5, 1e-12)
            )
        del facts["standard errors apart (of fresh draws)"]
        facts["points apart"] = 100 * (stated - facts["of fresh draws"])
        rows.append(facts)
    return rows


def patterns(rounds: int) -> dict[str, Any]:
    """Compare the best row for each pattern of given columns with trying all rows."""
    rng = np.random.default_rng(2)
    names = [f"column {k}" for k in range(COLUMNS)]
    features = [
        feature(f"feature {k}", *{name, names[k - 1 - k % 2]})
        for k, name in enumerate(names)
    ]
    masks, looked, wrong = range(1 << COLUMNS), 0, 0
    given = np.array(masks)
    missing = {name: ~given >> k & 1 > 0 for k, name in enumerate(names)}
    withheld = ColumnNeeds(features).withheld_of_rows(missing, len(masks)).tolist()
    for _ in range(rounds):
        costs, qualities = rng.random((2, len(masks))).round(2)
        costs[0] = 0.0
        index = index_of(features, (), masks, costs, qualities, np.empty((0, 0)))
        for pattern, lost in zip(masks, withheld, strict=True):
            there = {name for k, name in enumerate(names) if pattern >> k & 1}
            # without the build's gaps, one column of a feature is enough
            able = [k for k, f in enumerate(features) if there & {*(f.reads or ())}]
            able_mask = sum(1 << k for k in able)
            lookup = PartialLookup(index, lost)
            for budget in rng.random(BUDGETS).tolist():
                row = lookup.best(1, budget)
                fits = [m for m in masks if not m & ~able_mask and costs[m] <= budget]
                best = max(qualities[m] for m in fits)
                wrong += not (row in fits and qualities[row] == best)
                looked += 1
    return {"patterns": len(masks), "look-ups": looked, "not the best": wrong}


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Compare all."""
    quick = given.quick
    return {
        "drawn cases": drawn_cases(100 if quick else given.cases),
        "200 draws": simulated(1000 if quick else 1_000_000),
        "given columns": patterns(1 if quick else 50),
    }


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__)
    parser.add_argument("--cases", type=int, default=100_000)
    given = parser.parse_args(arguments)
    report.tell(measure(given), given)
