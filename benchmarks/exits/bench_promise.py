"""How often a promised rate of changed decisions is broken.

python -m benchmarks.exits.bench_promise DATA         a line per data set and alpha
python -m benchmarks.exits.bench_promise DATA --json  one JSON object, for the record

The test rows of each set stand for the population, so that every schedule's true rate
is known. Calibration rows are drawn from them with replacement, `RESAMPLINGS` times;
the schedule chosen on each draw breaks its promise if its true rate exceeds alpha.
With confidence 95 % at most 5 % of the draws may, give or take chance.
"""

from pathlib import Path
from typing import Any

import numpy as np

from polydom.models.qwyc.confidence_bound import calibrate
from polydom.models.qwyc.schedule import Schedule

from .. import report
from ..data.tables import SETS
from .binary_exits import stopping_for, train

ALPHAS = (0.005, 0.01)
CONFIDENCE = 0.95
RESAMPLINGS = 200
ROWS = 4_000  # calibration rows of each draw


def measure(name: str, folder: Path) -> list[dict[str, Any]]:
    """Broken promises and mean trees of one data set, for each alpha."""
    X, y, Xt, _ = SETS[name](folder)
    ensemble = train(X, y)
    scores, fresh = ensemble.base_scores(X), ensemble.base_scores(Xt)
    order, stopping = stopping_for(scores, ensemble.threshold)
    ladder = [
        Schedule(order, *thresholds, ensemble.threshold)
        for thresholds in stopping.ladder()
    ]
    full = fresh.sum(axis=1) >= ensemble.threshold
    found = []
    for alpha in ALPHAS:
        draws = np.random.default_rng(0)
        rates, means = [], []
        known: dict[bytes, tuple[float, float]] = {}
        for _ in range(RESAMPLINGS):
            rows = fresh[draws.integers(0, len(fresh), ROWS)]
            schedule = calibrate(ladder, (rows,), alpha, CONFIDENCE)
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


def main() -> None:
    """Run the benchmark."""
    parser = report.options(__doc__, data=True)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    args = parser.parse_args()
    report.need(args.data)
    rows = [row for name in args.sets for row in measure(name, args.data)]
    report.tell({f"{RESAMPLINGS} draws of {ROWS} rows": rows}, args.json)


if __name__ == "__main__":
    main()
