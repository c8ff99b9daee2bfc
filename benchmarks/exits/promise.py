"""Is a promised rate of changed decisions kept on fresh rows, for each class?

The test rows of each set stand for the population, so that every schedule's true rates
are known. Calibration rows are drawn from them with replacement, many times; the
schedule chosen on each draw breaks its promise if its true rate exceeds alpha for one
of the two classes. With confidence 95 % at most 5 % of the draws may, give or take
chance.

When does a server notice a broken promise? Answers of one class change at a known rate,
and the server's audit counts until its alarm.
"""

import argparse
from typing import Any

import numpy as np

from polydom.models.qwyc.fixed_sequence import ClassTests, FreshRows, calibrate_sides
from polydom.models.qwyc.running_sums import Floats
from polydom.models.qwyc.schedule import Schedule
from polydom.server.engine.monitoring.exit_audit import ShareTest

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
ALARMS = 200  # runs of an audit until its alarm, for each rate
BROKEN = (4 / 3, 2.0, 5.0)  # true rates to notice, as multiples of the promised one


def resampled(name: str, rows: Split, trees: int, draws: int) -> list[dict[str, Any]]:
    """Broken promises, mean trees, and the mean rate of the class that changes more."""
    X, y, Xt, _ = rows
    ensemble = train(X, y, trees)
    scores, fresh = ensemble.base_scores(X), ensemble.base_scores(Xt)
    ladder = [(one.lower, one.upper) for one in schedules(scores, ensemble.threshold)]
    order = next(schedules(scores, ensemble.threshold)).order
    full = fresh.sum(axis=1) >= ensemble.threshold
    never = np.full(len(order), np.inf)

    def schedule(lower: Floats, upper: Floats) -> Schedule:
        return Schedule(order, lower, upper, ensemble.threshold)

    found = []
    for alpha in ALPHAS:
        random = np.random.default_rng(0)
        rates, means = [], []
        known: dict[bytes, tuple[float, float]] = {}
        for _ in range(draws):
            places = random.integers(0, len(fresh), ROWS)
            whole = full[places]
            tests = ClassTests.of(whole, np.full(2, alpha), CONFIDENCE, apart=True)
            rows_drawn = FreshRows.of(whole, fresh[places], whole)
            proven = -never, never
            made = calibrate_sides(iter(ladder), schedule, rows_drawn, tests, proven)
            key = made.lower.tobytes() + made.upper.tobytes()
            if key not in known:
                decisions, used = made.evaluate(fresh)
                worst = max(
                    float(np.mean(decisions[full == k] != k)) for k in (False, True)
                )
                known[key] = worst, float(used.mean())
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


def until_alarm(alpha: float, times: float, runs: int) -> dict[str, Any]:
    """Drawn answers of a class until the alarm, if its answers change at a rate."""
    draws = np.random.default_rng(0)
    counts = []
    for _ in range(runs):
        test, count = ShareTest(alpha), 1
        while not test.add(bool(draws.random() < times * alpha)):
            count += 1
        counts.append(count)
    return {"alpha": alpha, "times": times, "drawn": float(np.mean(counts))}


def fresh(args: argparse.Namespace) -> dict[str, list[dict[str, Any]]]:
    """Promises on fresh rows, of each set."""
    if args.quick:
        return {
            "2 draws": resampled("tumours", load_tumours(), 20, 2),
            "until the alarm": [until_alarm(0.1, 5.0, 2)],
        }
    rows = [
        row
        for name in args.sets
        for row in resampled(name, SETS[name](args.data_folder), TREES, RESAMPLINGS)
    ]
    return {
        f"{RESAMPLINGS} draws of {ROWS} rows": rows,
        "until the alarm": [until_alarm(0.01, times, ALARMS) for times in BROKEN],
    }


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
