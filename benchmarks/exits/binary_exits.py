"""How many base models an early exit takes, at equal changed decisions on test rows.

Protocol, fixed before a test row was looked at. Fit: the training rows; for `polydom`
also copies with a column or so swapped between rows (`swap_columns`, no labels).
Report: the test rows, by the whole curve of each method, in two ways alike for all of
them: for each limit the cheapest point whose *test* change is within it, and the mean
ratio of trees over all shares of test change that both curves reach. What there is to
choose in `polydom` was chosen on a fifth of the training rows of the four sets, held
out of the model; learning rates of smaller ensembles on a fifth of each set's training
rows. Of today's method, the test rows were looked at once before its last change, which
other rows asked for.

To tell what the copies are worth, "polydom, no copies" and "qwyc*, copies" are each
fitted on the other's rows.
"""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.models import Ensemble
from polydom.models.qwyc.algorithms import changes_allowed
from polydom.models.qwyc.augment import swap_columns
from polydom.models.qwyc.costs import ModelCosts
from polydom.models.qwyc.fit import check_decisions, fit_schedule
from polydom.models.qwyc.optimal_stopping import Stopping
from polydom.models.qwyc.ordering import OrderName, order_by_impurity
from polydom.models.qwyc.running_sums import ScoreSums
from polydom.models.qwyc.schedule import Schedule

from ..data.tables import SETS, Codes, Rows
from ..models.boosting import BINARY, RATE, SAME, TREES, boost
from .equal_change import by_method, cheapest, equal_change, within
from .fan import FanSchedule, fit_fan
from .smaller_ensembles import smaller

Scores = NDArray[np.float64]
Flags = NDArray[np.bool_]

ALPHAS = (0, 0.0002, 0.0005, 0.001, 0.0015, 0.002, 0.003, 0.004, 0.006, 0.01, 0.02)
FAN_ALPHAS = (0, 0.001, 0.004, 0.01)
PRICES = np.geomspace(2000, 0.25, 28)  # of a wrong stop, in whole ensembles
LIMITS = (0.01, 0.005, 0.002)
SEEDS = 5  # of the random orders, as in the paper
PAIRS = (
    ("polydom", "qwyc*"),
    ("polydom", "fan*"),
    ("polydom", "natural"),
    ("polydom", "lightgbm early stop"),
    ("polydom", "polydom, no copies"),
    ("polydom", "qwyc*, copies"),
    ("polydom, no copies", "qwyc*"),
    ("qwyc*, copies", "qwyc*"),
    ("qwyc*", "fan*"),
)
BINS = 20  # of the histograms of base models used
FIXED: tuple[tuple[str, OrderName, int], ...] = (
    ("natural", "natural", 0),
    ("individual mse", "individual-mse", 0),
    ("greedy mse", "greedy-mse", 0),
    *((f"random {seed}", "random", seed) for seed in range(SEEDS)),
)
COPIES = 3
MARGINS = np.geomspace(0.5, 6.0, 24)  # of LightGBM's early stop, tested every 10 trees


def train(X: Rows, y: Codes, trees: int = TREES, rate: float = RATE) -> Ensemble:
    """Train the full model or a smaller one, and compile it from its own file."""
    options = BINARY | SAME | {"learning_rate": rate, "num_threads": 2}
    made: Ensemble = boost(X, y, trees, **options)[1]
    return made


def ours(
    scores: Scores, more: Scores, threshold: float
) -> Iterator[tuple[str, float, Schedule]]:
    """(method, alpha, schedule): our curve, with copies and without."""
    yield from stopping_curve("polydom", more, threshold)
    yield from stopping_curve("polydom, no copies", scores, threshold)


def stopping_curve(
    method: str, rows: Scores, threshold: float
) -> Iterator[tuple[str, float, Schedule]]:
    """Fit as `fit_schedule` does, to all alphas together: each price is tried once."""
    order, stopping = stopping_for(rows, threshold)
    prices = [stopping.prices(1)[0], *(rows.shape[1] * PRICES)]
    tried = [stopping.cuts(price) for price in prices]
    outcomes = [stopping.outcome(cuts) for cuts in tried]
    for alpha in ALPHAS:
        allowed = changes_allowed(alpha, len(rows))
        kept = [k for k, (_, wrong) in enumerate(outcomes) if wrong <= allowed]
        best = min(kept, key=lambda k: outcomes[k][0])
        thresholds = stopping.thresholds(tried[best])
        yield method, alpha, Schedule(order, *thresholds, threshold)


def stopping_for(rows: Scores, threshold: float) -> tuple[NDArray[np.int64], Stopping]:
    """Order base models as `fit_schedule` does, and what finds thresholds along it."""
    positive = check_decisions(rows, threshold, None)
    costs = ModelCosts.check(rows.shape[1], None)
    order = order_by_impurity(rows, positive, threshold, costs=costs, threads=2)
    sums = ScoreSums(rows, order, positive, threshold)
    return order, Stopping(sums, costs=costs.along(order))


def theirs(
    scores: Scores, more: Scores, threshold: float
) -> Iterator[tuple[str, float, Schedule | FanSchedule]]:
    """(method, alpha, schedule): QWYC*'s curve, fixed orders, and Fan*."""
    for alpha in ALPHAS:
        star = fit_schedule(scores, threshold, alpha, method="qwyc")
        yield "qwyc*", alpha, star
    for name, order, seed in FIXED:
        kept: Any = order
        for alpha in ALPHAS:
            fixed = fit_schedule(
                scores, threshold, alpha, method="fixed", order=kept, seed=seed
            )
            kept = fixed.order
            yield name, alpha, fixed
    joint = fit_schedule(scores, threshold, min(LIMITS), method="qwyc").order
    orders: dict[str, Any] = {"fan*": "individual-mse", "fan on qwyc*": joint}
    for name, kept in orders.items():
        for alpha in FAN_ALPHAS:
            yield name, alpha, fit_fan(scores, threshold, alpha, order=kept)
    for alpha in ALPHAS[::2]:
        star = fit_schedule(more, threshold, alpha, method="qwyc")
        yield "qwyc*, copies", alpha, star


def early_stop(scores: Scores, labels: Codes) -> Iterator[dict[str, Any]]:
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


def fewer_trees(
    X: Rows, y: Codes, Xt: Rows, yt: Codes, full: Flags
) -> Iterator[dict[str, Any]]:
    """Ensembles trained smaller, against the labels and the `full` one's decisions."""
    for method, size, rate, decisions in smaller(X, y, Xt, train, RATE):
        yield {
            "method": method,
            "rate": rate,
            "mean": float(size),
            "changed": float(np.mean(decisions != full)),
            "accuracy": float(np.mean(decisions == yt)),
        }


def measure(name: str, folder: Path) -> dict[str, Any]:
    """Every point of every method's curve on one data set."""
    X, y, Xt, yt = SETS[name](folder)
    ensemble = train(X, y)
    threshold = ensemble.threshold
    scores, fresh = ensemble.base_scores(X), ensemble.base_scores(Xt)
    more = ensemble.base_scores(swap_columns(X, copies=COPIES))
    full = fresh.sum(axis=1) >= threshold
    points = [*early_stop(fresh, yt), *fewer_trees(X, y, Xt, yt, full)]
    fitted = (scores, more, threshold)
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
                "used": np.histogram(used, BINS, (0, TREES))[0].tolist(),
            }
        )
    return {
        "rows": len(X),
        "test_rows": len(Xt),
        "accuracy": float(np.mean(full == yt)),
        "points": points,
    }


def show(name: str, result: dict[str, Any]) -> None:
    """Print one data set's tables."""
    print(
        f"\n{name}: {result['rows']} training and {result['test_rows']} test rows, "
        f"accuracy of all {TREES} trees {result['accuracy']:.4f}"
    )
    print(f"{'mean trees at test change <=':32}" + "".join(f"{x:9.1%}" for x in LIMITS))
    found = by_method(result["points"])
    for method, points in found.items():
        least = [within(points, limit) for limit in LIMITS]
        cells = "".join(f"{'-' if m is None else f'{m:.1f}':>9}" for m in least)
        print(f"{method:32}{cells}")
    print(f"{'accuracy at test change <=':32}" + "".join(f"{x:9.1%}" for x in LIMITS))
    for method, points in found.items():
        kept = [cheapest(points, limit) for limit in LIMITS]
        cells = "".join(
            f"{'-' if p is None else format(p['accuracy'], '.4f'):>9}" for p in kept
        )
        print(f"{method:32}{cells}")
    show_ratios(found)
    print("method, trees, rate, accuracy, changed")
    for point in found["fewer trees"] + found["fewer trees, best rate"]:
        print(
            f"{point['method']:24} {point['mean']:4.0f} {point['rate']:5.2f} "
            f"{point['accuracy']:7.4f} {point['changed']:8.3%}"
        )
    print("method       alpha   mean trees   p99   changed  accuracy")
    for point in found["polydom"] + found["qwyc*"]:
        print(
            f"{point['method']:10} {point['alpha']:7.2%} {point['mean']:10.1f} "
            f"{point['p99']:7.0f} {point['changed']:8.3%} {point['accuracy']:9.4f}"
        )


def show_ratios(found: dict[str, list[dict[str, Any]]]) -> None:
    """Print mean trees of one method over another's at equal test change."""
    print("mean trees over another's, at equal test change")
    for method, rival in PAIRS:
        measured = equal_change(found[method], found[rival])
        if measured is None:
            told = "no share of changes that both reach"
        else:
            told = "{:6.3f}   from {:.2%} to {:.2%}".format(*measured)
        print(f"  {f'{method} / {rival}':40} {told}")
