"""Trees that a forest's votes take, by our schedules and by the rivals since 2024.

Protocol. The forests and divisions of `forest_votes`, the methods of `vote_points`,
each judged by its whole curve: for each limit the cheapest point whose *test* change is
within it, and the mean ratio of trees over all shares of test change that both curves
reach. Points are means over forests. Beside the curves: what comes of rates that are
asked for, and the rate at which Optimal Sequential Testing's authors have figures.
"""

from collections import defaultdict
from typing import Any

import numpy as np

from ..data.tables import Codes, Rows
from .equal_change import by_method
from .forest_votes import vote
from .rival_curves import LIMITS, show_curves, show_frontier
from .vote_points import KNOWN, VOTERS, declared, majority, points_of, sequential

FEWER = 51  # trees of the authors' figures with data
FORESTS = 5


def measure(
    X: Rows, y: Codes, forests: int = FORESTS, trees: int = VOTERS
) -> dict[str, Any]:
    """Every point of every method's curve on one set, as means over forests."""
    found: dict[tuple[str, Any], list[Any]] = defaultdict(list)
    fewer: dict[tuple[str, Any], list[Any]] = defaultdict(list)
    asked: dict[tuple[str, Any], list[Any]] = defaultdict(list)
    accuracies = []
    for seed in range(forests):
        votes = vote(X, y, trees, seed)
        whole = majority(votes.test, votes.classes)
        accuracies.append(float(np.mean(whole == votes.labels)))
        for point in points_of(votes):
            found[point["method"], point["knob"]].append(point)
        if votes.classes == 2 and trees == VOTERS:
            for point in sequential(votes.first(FEWER), (KNOWN,)):
                fewer[point["method"], point["knob"]].append(point)
            for point in declared(votes):
                asked[point["method"], point["knob"]].append(point)
    return {
        "trees": trees,
        "forests": forests,
        "test_rows": len(votes.test),
        "fit_rows": len(votes.fit),
        "accuracy": float(np.mean(accuracies)),
        "points": [mean_point(points) for points in found.values()],
        "declared": [mean_point(points) for points in asked.values()],
        "known": [mean_point(points) for points in fewer.values()],
    }


def mean_point(points: list[dict[str, Any]]) -> dict[str, Any]:
    """One point's mean over forests."""
    means = {
        name: float(np.mean([point[name] for point in points]))
        for name in ("mean", "changed", "accuracy")
    }
    return {**points[0], **means}


def show(name: str, result: dict[str, Any]) -> None:
    """Print one set's tables."""
    print(
        f"\n{name}: {result['forests']} forests of {result['trees']} trees, accuracy "
        f"{result['accuracy']:.4f}; {result['fit_rows']} calibration and "
        f"{result['test_rows']} test rows each"
    )
    show_curves(result["points"], result["accuracy"])
    for method, points in by_method(result["points"]).items():
        if method.startswith("P2-STOP"):
            show_frontier(method, points)
    if result["declared"]:
        print("declared rate: trees (rate on test rows)")
    for method, points in by_method(result["declared"]).items():
        at = {p["knob"]: f"{p['mean']:.2f} ({p['changed']:.3%})" for p in points}
        told = "".join(f"{at.get(alpha, '-'):>18}" for alpha in LIMITS)
        print(f"{method:36}{told}")
    if result["known"]:
        print(f"the first {FEWER} trees, disagreement {KNOWN:.1%}: trees (rate)")
    for point in result["known"]:
        print(f"{point['method']:36}{point['mean']:8.2f} ({point['changed']:.2e})")
