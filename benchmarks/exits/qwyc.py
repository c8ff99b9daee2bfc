"""How many base models does an early exit take, at as many changed decisions as others?

python -m benchmarks qwyc                the four sets
python -m benchmarks qwyc --sets adult   some of them

Fit: the training rows; for `polydom` also copies with a column or so swapped between
rows (`swap_columns`, no labels). Report: the test rows, by the whole curve of each
method, in two ways alike for all of them: for each limit the cheapest point whose
*test* change is within it, and the mean ratio of trees over all shares of test change
that both curves reach. What there is to choose in `polydom` was chosen on a fifth of
the training rows of the four sets, held out of the model; learning rates of smaller
ensembles on a fifth of each set's training rows.

To tell what the copies are worth, "polydom, no copies" and "qwyc*, copies" are each
fitted on the other's rows. "Fewer trees" are the rival of every early exit: an ensemble
that was trained smaller, at the same learning rate and at the best. With --json all
points of all curves are told besides.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.models import Ensemble
from polydom.models.early_exit.fitting_rows import swap_columns
from polydom.models.qwyc.algorithms import changes_allowed
from polydom.models.qwyc.fit_schedule import fit_schedule
from polydom.models.qwyc.schedule import Schedule

from .. import report
from ..data.bundled import load_tumours
from ..data.tables import SETS, Codes, Rows, Split
from ..models.boosting import BINARY, RATE, SAME, TREES, boost
from .curves import Point, Points, against, by_method, stopping_for, within_limits
from .orders import fixed_orders

Scores = NDArray[np.float64]
Flags = NDArray[np.bool_]

LIMITS = (0.01, 0.005, 0.002)
PAIRS = (
    ("polydom", "qwyc*"),
    ("polydom", "natural"),
    ("polydom", "lightgbm early stop"),
    ("polydom", "polydom, no copies"),
    ("polydom", "qwyc*, copies"),
    ("polydom, no copies", "qwyc*"),
    ("qwyc*, copies", "qwyc*"),
)
COPIES = 3
MARGINS = np.geomspace(0.5, 6.0, 24)  # of LightGBM's early stop, tested every 10 trees
HELD_OUT = 0.2  # share of the training rows on which learning rates are chosen


@dataclass(frozen=True)
class Effort:
    """How much of everything is tried."""

    trees: int = TREES  # Trees of the whole ensemble
    # Declared shares of changed decisions: a method's points
    alphas: tuple[float, ...] = (
        *(0, 0.0002, 0.0005, 0.001, 0.0015, 0.002),
        *(0.003, 0.004, 0.006, 0.01, 0.02),
    )
    # Penalties of a wrong stop, in costs of the whole ensemble
    prices: tuple[float, ...] = tuple(np.geomspace(2000, 0.25, 28).tolist())
    seeds: int = 5  # Number of random orders; the paper has five
    # `sizes` and `rates`: of smaller ensembles: trees, and learning rates to choose
    # from. With 10 trees the usual 0.05 has hardly begun.
    sizes: tuple[int, ...] = (10, 20, 40, 80, 160, 320)
    rates: tuple[float, ...] = (0.05, 0.1, 0.2, 0.3)


FULL = Effort()
QUICK = Effort(20, (0.0, 0.02), (100.0, 1.0), 1, (5,), (0.05, 0.2))


def train(X: Rows, y: Codes, trees: int = TREES, rate: float = RATE) -> Ensemble:
    """Train the full model or a smaller one, and compile it from its own file."""
    options = BINARY | SAME | {"learning_rate": rate, "num_threads": 1}
    made: Ensemble = boost(X, y, trees, **options)[1]
    return made


def ours(
    scores: Scores, more: Scores, threshold: float, effort: Effort
) -> Iterator[tuple[str, float, Schedule]]:
    """(method, alpha, schedule): our curve, with copies and without.

    Fits as `fit_schedule` does, to all alphas together: each price is tried once.
    """
    for method, rows in (("polydom", more), ("polydom, no copies", scores)):
        order, stopping = stopping_for(rows, threshold)
        prices = [stopping.penalties(1)[0], *(rows.shape[1] * np.array(effort.prices))]
        alike = np.ones(2)  # the rivals count changes of both decisions together
        tried = [stopping.cuts(price, alike) for price in prices]
        outcomes = [stopping.outcome(cuts) for cuts in tried]
        for alpha in effort.alphas:
            allowed = changes_allowed(alpha, len(rows))
            kept = [k for k, (_, wrong) in enumerate(outcomes) if len(wrong) <= allowed]
            best = min(kept, key=lambda k: outcomes[k][0])
            thresholds = stopping.thresholds(tried[best])
            yield method, alpha, Schedule(order, *thresholds, threshold)


def theirs(
    scores: Scores, more: Scores, threshold: float, effort: Effort
) -> Iterator[tuple[str, float, Schedule]]:
    """(method, alpha, schedule): QWYC*'s curve, and fixed orders.

    QWYC* with copies is fitted to every second alpha, as it takes long.
    """
    joint = scores, threshold
    for alpha in effort.alphas:
        yield "qwyc*", alpha, fit_schedule(*joint, alpha, method="qwyc")
    for name, order in fixed_orders(scores, effort.seeds):
        for alpha in effort.alphas:
            fixed = fit_schedule(*joint, alpha, method="fixed", order=order)
            yield name, alpha, fixed
    for alpha in effort.alphas[::2]:
        schedule = fit_schedule(more, threshold, alpha, method="qwyc")
        yield "qwyc*, copies", alpha, schedule


def early_stop(scores: Scores, labels: Codes) -> Iterator[Point]:
    """LightGBM's own rule on test scores: |raw| > margin, looked at every 10 trees."""
    sums = np.cumsum(scores, axis=1)[:, 9:-1:10]
    full = scores.sum(axis=1) > 0
    for margin in MARGINS:
        over = 2 * np.abs(sums) > margin
        stops = over.any(axis=1)
        place = np.where(stops, over.argmax(axis=1), 0)
        value = np.where(stops, sums[np.arange(len(sums)), place], full - 0.5)
        used = np.where(stops, 10 * (place + 1), scores.shape[1])
        yield {
            "method": "lightgbm early stop",
            "margin": float(margin),
            "mean": float(used.mean()),
            "changed": float(np.mean((value > 0) != full)),
            "accuracy": float(np.mean((value > 0) == labels)),
        }


def smaller(rows: Split, full: Flags, effort: Effort) -> Iterator[Point]:
    """Ensembles trained smaller, against the labels and the `full` one's decisions."""
    X, y, Xt, yt = rows
    chosen = choose_rates(X, y, effort)
    for rate in sorted({RATE, *chosen.values()}):
        ensemble = train(X, y, max(effort.sizes), rate)
        scores = ensemble.base_scores(Xt)
        for size in effort.sizes:
            decisions = first_trees(scores, size) >= ensemble.threshold
            point = {
                "rate": rate,
                "mean": float(size),
                "changed": float(np.mean(decisions != full)),
                "accuracy": float(np.mean(decisions == yt)),
            }
            if rate == RATE:
                yield {"method": "fewer trees", **point}
            if rate == chosen[size]:
                yield {"method": "fewer trees, best rate", **point}


def choose_rates(X: Rows, y: Codes, effort: Effort) -> dict[int, float]:
    """Learning rate of each size, by log loss on held-out training rows."""
    order = np.random.default_rng(0).permutation(len(X))
    cut = int((1 - HELD_OUT) * len(X))
    fit, held = order[:cut], order[cut:]
    losses: dict[tuple[int, float], float] = {}
    for rate in effort.rates:
        ensemble = train(X[fit], y[fit], max(effort.sizes), rate)
        scores = ensemble.base_scores(X[held])
        for size in effort.sizes:
            margin = first_trees(scores, size) - ensemble.threshold
            signed = np.where(y[held] == 1, margin, -margin)
            losses[size, rate] = float(np.logaddexp(0, -signed).mean())
    return {
        size: min(effort.rates, key=lambda rate: losses[size, rate])
        for size in effort.sizes
    }


def first_trees(scores: Scores, size: int) -> Scores:
    """Sums of the first trees, (N,).

    Without bagging the first k trees of an ensemble are the ensemble of k trees that
    is trained with the same learning rate.
    """
    sums: Scores = scores[:, :size].sum(axis=1)
    return sums


def measure(rows: Split, effort: Effort = FULL) -> dict[str, Any]:
    """Every point of every method's curve on one data set."""
    X, y, Xt, yt = rows
    ensemble = train(X, y, effort.trees)
    threshold = ensemble.threshold
    scores, fresh = ensemble.base_scores(X), ensemble.base_scores(Xt)
    more = ensemble.base_scores(swap_columns(X, copies=COPIES))
    full = fresh.sum(axis=1) >= threshold
    points = [*early_stop(fresh, yt), *smaller(rows, full, effort)]
    fitted = (scores, more, threshold, effort)
    for method, alpha, schedule in chain(ours(*fitted), theirs(*fitted)):
        decisions, used = schedule.evaluate(fresh)
        points.append(
            {
                "method": method,
                "alpha": alpha,
                "mean": float(used.mean()),
                "p99": float(np.percentile(used, 99)),
                "changed": float(np.mean(decisions != full)),
                "accuracy": float(np.mean(decisions == yt)),
            }
        )
    return {
        "trees": effort.trees,
        "rows": len(X),
        "test_rows": len(Xt),
        "accuracy": float(np.mean(full == yt)),
        "points": points,
    }


def tables(name: str, result: dict[str, Any]) -> dict[str, Points]:
    """One data set's tables."""
    found = by_method(result["points"])
    title = f"{name}, {result['trees']} trees, accuracy {result['accuracy']:.4f}"
    fewer = found["fewer trees"] + found["fewer trees, best rate"]
    declared = found["polydom"] + found["qwyc*"]
    shown = "method", "alpha", "mean", "p99", "changed", "accuracy"
    return {
        f"{title}: mean trees within a test change": within_limits(
            result["points"], LIMITS
        ),
        f"{name}: mean trees over another's, at equal test change": against(
            result["points"], PAIRS
        ),
        f"{name}: smaller ensembles": fewer,
        f"{name}: what is declared, and what comes of it": [
            {key: point[key] for key in shown} for point in declared
        ],
    }


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__, data=True)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    args = parser.parse_args(arguments)
    if args.quick:
        results = {"tumours": measure(load_tumours(), QUICK)}
    else:
        report.need(args, *args.sets)
        results = {name: measure(SETS[name](args.data_folder)) for name in args.sets}
    told: dict[str, Any] = {}
    for name, result in results.items():
        told |= tables(name, result)
    if args.json:
        told["points"] = {name: result["points"] for name, result in results.items()}
    report.tell(told, args)


if __name__ == "__main__":
    main()
