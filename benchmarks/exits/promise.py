"""Is a promised rate of changed decisions kept on fresh rows?

The test rows of each set stand for the population, so that every schedule's true rate
is known. Calibration rows are drawn from them with replacement, many times; the
schedule chosen on each draw breaks its promise if its true rate exceeds alpha. With
confidence 95 % at most 5 % of the draws may, give or take chance.
"""

import argparse
from typing import Any

import numpy as np

from polydom.models.qwyc.calibration import ClassTests, FreshRows, calibrate

from .. import report
from ..data.bundled import load_tumours
from ..data.tables import SETS, Split
from ..models.boosting import TREES
from .curves import schedules
from .qwyc import train

ALPHAS = (0.005, 0.01)
CONFIDENCE = 0.95
RESAMPLINGS = 200
ROWS = 4_000  # calibration rows of each draw


def resampled(name: str, rows: Split, trees: int, draws: int) -> list[dict[str, Any]]:
    """Broken promises and mean trees of one data set, for each alpha."""
    X, y, Xt, _ = rows
    ensemble = train(X, y, trees)
    scores, fresh = ensemble.base_scores(X), ensemble.base_scores(Xt)
    ladder = [*schedules(scores, ensemble.threshold)]
    full = fresh.sum(axis=1) >= ensemble.threshold
    found = []
    for alpha in ALPHAS:
        random = np.random.default_rng(0)
        rates, means = [], []
        known: dict[bytes, tuple[float, float]] = {}
        for _ in range(draws):
            drawn = fresh[random.integers(0, len(fresh), ROWS)]
            whole = drawn.sum(axis=1) >= ensemble.threshold
            tests = ClassTests.of(whole, np.full(2, alpha), CONFIDENCE)
            rung = FreshRows.of(whole, drawn, whole)
            schedule = calibrate(ladder, rung, tests)
            key = schedule.lower.tobytes()
            if key not in known:
                decisions, used = schedule.evaluate(fresh)
                known[key] = float(np.mean(decisions != full)), float(used.mean())
            rates.append(known[key][0])
            means.append(known[key][1])
        found.append(
            {
                "set": name,
                "alpha": alpha,
                "broken": float(np.mean(np.array(rates) > alpha)),
                "rate": float(np.mean(rates)),
                "mean_trees": float(np.mean(means)),
            }
        )
    return found


def fresh(args: argparse.Namespace) -> dict[str, list[dict[str, Any]]]:
    """Promises on fresh rows, of each set."""
    if args.quick:
        return {"2 draws": resampled("tumours", load_tumours(), 20, 2)}
    rows = [
        row
        for name in args.sets
        for row in resampled(name, SETS[name](args.data_folder), TREES, RESAMPLINGS)
    ]
    return {f"{RESAMPLINGS} draws of {ROWS} rows": rows}


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__, data=True)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    args = parser.parse_args(arguments)
    if not args.quick:
        report.need(args, *args.sets)
    report.tell(fresh(args), args)


if __name__ == "__main__":
    main()
