"""Boosted trees: LazyGBM's certificate beside our bounds, P2-STOP beside our schedules.

Two classes: the ensemble of the part `trees`, 500 trees of depth 5, our schedules
fitted on its training rows and three copies of each with columns swapped. More classes:
the ensemble of the part `rounds`, 100 rounds. All orders of stages decide every test
row as the whole does, or the script ends.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.models import Ensemble
from polydom.models.early_exit.remaining_scores import exact_schedule
from polydom.models.qwyc.augment import swap_columns

from ..data.tables import SETS, Codes
from ..models.boosting import BINARY, SAME, boost
from . import multiclass_exits
from .binary_exits import COPIES
from .equal_change import by_method
from .increment_spreads import (
    SCALES,
    SPREADS,
    WINDOWS,
    score_increments,
    spreads,
    stops,
)
from .residual_certificates import (
    Leaves,
    as_two_classes,
    certified,
    certified_by_pairs,
    leaves_of,
)
from .rival_curves import show_curves, show_frontier
from .schedule_rungs import rungs

Floats = NDArray[np.float64]
CERTIFICATES = {"LazyGBM": certified, "pairs of classes": certified_by_pairs}


def certificates(scores: Floats, bias: Floats, leaves: Leaves) -> list[dict[str, Any]]:
    """Stages that the certificates take, in two orders: scores are (N, T, K)."""
    orders = {
        "boosting order": np.arange(scores.shape[1]),
        "widest first": np.argsort(-leaves.largest, kind="stable"),
    }
    whole, table = (scores.sum(axis=1) + bias).argmax(axis=1), []
    for method, certify in CERTIFICATES.items():
        for name, order in orders.items():
            used = certify(scores, bias, leaves, order)
            sums = np.cumsum(scores[:, order], axis=1) + bias
            answers = sums[np.arange(len(sums)), used - 1].argmax(axis=1)
            table.append(certificate(f"{method}, {name}", used, answers, whole))
    return table


def certificate(
    method: str, used: Codes, answers: NDArray[Any], whole: NDArray[Any]
) -> dict[str, Any]:
    """One line of the table of exact exits."""
    return {
        "method": method,
        "mean": float(used.mean()),
        "certified": float(np.mean(used < used.max())),
        "changed": int(np.count_nonzero(answers != whole)),
    }


def measure_two(name: str, folder: Path) -> dict[str, Any]:
    """Exact exits and P2-STOP's curve and ours on one set of two classes."""
    X, y, Xt, yt = SETS[name](folder)
    booster, ensemble = boost(X, y, **BINARY | SAME | {"num_threads": 1})
    scores, bias = ensemble.base_scores(Xt), -ensemble.threshold
    leaves, halves = leaves_of(booster, 2), np.array([-bias, bias]) / 2
    whole = scores.sum(axis=1) >= ensemble.threshold
    answers, used = exact_schedule(ensemble).evaluate(scores)
    exact = certificates(as_two_classes(scores), halves, leaves)
    exact.append(certificate("exact_schedule", used, answers, whole))
    points = []
    for method, knob, answers, used in (
        *our_curve(ensemble, X, scores),
        *spread_curve(scores, bias),
    ):
        points.append(
            {
                "method": method,
                "knob": knob,
                "mean": float(used.mean()),
                "changed": float(np.mean(answers != whole)),
                "accuracy": float(np.mean(answers == yt)),
            }
        )
    return {
        "of": ensemble.size,
        "accuracy": float(np.mean(whole == yt)),
        "exact": exact,
        "points": points,
    }


def our_curve(ensemble: Ensemble, X: Any, fresh: Floats) -> Any:
    """(method, knob, answers, base models used) of our schedules on fresh scores."""
    rows = ensemble.base_scores(swap_columns(X, copies=COPIES))
    for rung, schedule in rungs(rows, threshold=ensemble.threshold):
        yield "polydom", rung, *schedule.evaluate(fresh)


def spread_curve(scores: Floats, bias: float) -> Any:
    """(method, knob, answers, base models used) of P2-STOP."""
    increments, margins = score_increments(scores, bias)
    sums, rows = np.cumsum(scores, axis=1) + bias, np.arange(len(scores))
    for window in WINDOWS:
        ranges = spreads(increments, window)
        for scale in SCALES:
            for spread in SPREADS:
                used = stops(ranges, margins, scale, spread)
                answers = sums[rows, used - 1] >= 0
                yield f"P2-STOP, {scale}", (window, spread), answers, used


def measure_many(name: str, folder: Path) -> dict[str, Any]:
    """Exact exits on one set of more classes."""
    parts = multiclass_exits.SETS[name](folder)
    booster, ensemble = multiclass_exits.train(*parts.train)
    scores = ensemble.base_scores(parts.test[0])
    leaves = leaves_of(booster, len(ensemble.classes))
    exact = certificates(scores, ensemble.bias, leaves)
    whole = (scores.sum(axis=1) + ensemble.bias).argmax(axis=1)
    answers, used = exact_schedule(ensemble).evaluate(scores)
    exact.append(certificate("exact_schedule", used, answers, whole))
    return {"of": ensemble.size, "exact": exact}


def show(name: str, result: dict[str, Any]) -> None:
    """Print one set's tables."""
    print(f"\n{name}: exact exits of {result['of']} stages")
    for line in result["exact"]:
        saved = 1 - line["mean"] / result["of"]
        print(
            f"{line['method']:36}{line['mean']:9.2f} {saved:7.2%} saved, "
            f"{line['certified']:7.2%} of the rows stop, {line['changed']} changed"
        )
    if "points" not in result:
        return
    show_curves(result["points"], result["accuracy"])
    for method, points in by_method(result["points"]).items():
        if method.startswith("P2-STOP"):
            show_frontier(method, points)
