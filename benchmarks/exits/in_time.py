"""How right is an ensemble of 500 trees within 5 to 500 microseconds?

python -m benchmarks in_time                Adult, covtype20k and rows like a bank's
python -m benchmarks in_time --sets adult   one of them
python -m benchmarks in_time --served       only real servers; builds two indexes

Models are trained on three quarters of the training rows, exits are fitted to the rest.
Every row of the test gets so much time for its model, by the processor's clock of the
thread. *Parts* goes on from part to part until the row exits or the time is up. *Whole*
is the model with the same exits where its 0.99 quantile fits, and else the most
frequent class. *First trees* are as many, in the order of training and without exits,
as fit by their 0.99 quantile: `num_iteration` chosen for the budget, with our kernels,
as LightGBM's own call for one row takes longer than most budgets (the last column).
*Squirrel* is our reading of "Jump Like A Squirrel", at as many nodes a second as the
whole forest visits. A late answer is wrong.
"""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from lightgbm import LGBMClassifier
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

from polydom.models import compile
from polydom.models.early_exit.early_exits import EarlyExit
from polydom.models.early_exit.ensemble import Ensemble
from polydom.models.early_exit.evaluator import EarlyAnswer
from polydom.models.qwyc.schedule import Schedule

from .. import report
from ..data.bundled import load_tumours
from ..data.tables import SETS, Codes, Rows, Split
from ..models.boosting import TREES
from .served_in_time import over_http
from .squirrel import accuracies, backward_order, node_shares

ALPHA = 0.005
BUDGETS_US = (5, 10, 20, 50, 100, 200, 500)
TESTED = 2_000  # rows
ORDERED = 300  # rows that the squirrel's order is chosen on
PART_S = 8e-6  # a look at the clock after so many seconds of base models
Answer = Callable[[Rows], int]


def like_a_bank() -> Split:
    """Draw 30,000 rows of 16 columns, of which 12 % are positive, with some noise."""
    X, y = make_classification(
        30_000,
        16,
        n_informative=8,
        weights=[0.88],
        flip_y=0.08,
        class_sep=0.6,
        random_state=0,
    )
    X = X.astype(np.float32)
    return X[:20_000], y[:20_000], X[20_000:], y[20_000:]


def clocked(
    answer: Callable[[Rows, float], int], rows: Any, y: Codes, us: int
) -> float:
    """Share of rows whose answer is right and in time."""
    right = 0
    for row, code in zip(rows, y.tolist(), strict=True):
        due_s = time.thread_time() + us * 1e-6
        found = answer(row, due_s)
        right += found == code and time.thread_time() <= due_s
    return right / len(y)


def high_s(answer: Callable[[Rows], Any], rows: Any) -> float:
    """0.99 quantile of the seconds of an answer."""
    taken = []
    for row in rows:
        begun_s = time.thread_time()
        answer(row)
        taken.append(time.thread_time() - begun_s)
    return float(np.quantile(taken, 0.99))


def untimed(answer: Callable[[Rows], EarlyAnswer]) -> Callable[[Rows, float], int]:
    """Answer without a look at the clock."""
    return lambda row, _: answer(row).code


def in_parts(exits: EarlyExit, each_s: float) -> Callable[[Rows, float], int]:
    """Answer by as many base models as there is time for."""
    step = exits.step * max(1, round(PART_S / each_s / exits.step))
    step = min(step, exits.size)
    more_s = step * each_s + 2e-6  # what comes after the last look

    def answer(row: Rows, due_s: float) -> int:
        def goes_on(_: int) -> bool:
            return time.thread_time() + more_s <= due_s

        return exits.answer_while(row, min(exits.step, exits.size), step, goes_on).code

    return answer


def compared(
    ensemble: Ensemble, X: Rows, y: Codes, Xt: Rows, yt: Codes
) -> dict[str, list[float]]:
    """Shares of rows that are right in time, by method, for each budget."""
    exits = ensemble.fit_early_exit(X, alpha=ALPHA)
    never = np.full(ensemble.size, np.inf)
    natural = Schedule(np.arange(ensemble.size), -never, never, ensemble.threshold)
    plain = ensemble.fit_early_scores(natural, X)
    assert isinstance(exits, EarlyExit)
    rows, known = list(np.ascontiguousarray(Xt)), list(np.ascontiguousarray(X[:1000]))
    whole_s = high_s(exits.answer, known)
    each_s = high_s(plain.answer, known) / ensemble.size
    parts = in_parts(exits, each_s)
    first_s = high_s(lambda r: exits.answer_first(r, exits.step), known)
    counts = [*range(plain.step, plain.size, plain.step)]
    firsts = [partial(plain.answer_first, count=count) for count in counts]
    counts_s = [high_s(first, known) for first in firsts]
    often = int(np.bincount(y).argmax())
    found: dict[str, list[float]] = {"parts": [], "whole": [], "first trees": []}
    prior = float((yt == often).mean())
    for us in BUDGETS_US:
        fitting = sum(one <= us * 1e-6 for one in counts_s)
        answers = {
            "parts": (first_s <= us * 1e-6, parts),
            "whole": (whole_s <= us * 1e-6, untimed(exits.answer)),
            "first trees": (fitting > 0, untimed(firsts[fitting - 1])),
        }
        for method, (fits, answer) in answers.items():
            share = clocked(answer, rows, yt, us) if fits else prior
            found[method].append(share)
    found["whole, no limit"] = [float((exits.predict(Xt) == yt).mean())]
    found["whole us"] = [whole_s * 1e6]
    found["seconds"] = [each_s]
    return found


def squirrel(
    forest: RandomForestClassifier,
    X: Rows,
    y: Codes,
    Xt: Rows,
    yt: Codes,
    whole_s: float,
) -> list[float]:
    """Accuracy of the squirrel for each budget, if a whole forest takes `whole_s`."""
    known, _ = node_shares(forest, X[:ORDERED])
    depths = np.array([one.tree_.max_depth for one in forest.estimators_])
    order = backward_order(known, y[:ORDERED], depths)
    shares, steps = node_shares(forest, Xt)
    visits_of_all = float(steps.sum(axis=0).mean())
    visits = [us * 1e-6 / whole_s * visits_of_all for us in BUDGETS_US]
    return accuracies(shares, steps, yt, order, visits)


def lines(name: str, rows: Split, trees: int, tested: int) -> list[dict[str, Any]]:
    """A line for each method and each model of one data set."""
    X, Xt = (np.ascontiguousarray(part, np.float32) for part in (rows[0], rows[2]))
    y, yt = (np.asarray(part, np.int64) for part in (rows[1], rows[3]))
    Xt, yt, kept = Xt[:tested], yt[:tested], 3 * len(X) // 4
    forest = RandomForestClassifier(trees, min_samples_leaf=3, n_jobs=1, random_state=0)
    boosting = LGBMClassifier(
        n_estimators=trees, learning_rate=0.05, n_jobs=1, verbose=-1
    )
    made: list[dict[str, Any]] = []
    for model in (forest, boosting):
        model.fit(X[:kept], y[:kept])
        ensemble = compile(model)
        found = compared(ensemble, X[kept:], y[kept:], Xt, yt)
        (whole_us,), (each_s,) = found.pop("whole us"), found.pop("seconds")
        (unlimited,) = found.pop("whole, no limit")
        if model is forest:
            rest = X[kept:], y[kept:], Xt, yt
            found["squirrel"] = squirrel(forest, *rest, each_s * trees)
        about = f"{name}, {type(model).__name__} of {trees}: {unlimited:.4f} whole"
        for method, shares in found.items():
            line = {"model": f"{about}, {whole_us:.0f} us", "method": method}
            pairs = zip(BUDGETS_US, shares, strict=True)
            made.append(line | {f"{us} us": share for us, share in pairs})
    booster = boosting.booster_
    ask = high_s(
        lambda row: booster.predict(row[None], num_iteration=1), list(Xt[:300])
    )
    made[-1]["LightGBM's own call us"] = ask * 1e6
    return made


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__, data=True)
    sets = ["adult", "covtype20k", "bank"]
    parser.add_argument("--sets", nargs="+", choices=[*SETS, "bank"], default=sets)
    parser.add_argument("--served", action="store_true", help="ask servers only")
    parser.add_argument("--cache", type=Path, help="keep the servers' indexes here")
    args = parser.parse_args(arguments)
    if args.quick:
        found = lines("tumours", load_tumours(), 40, 50)
        report.tell({"in time": found, "served": over_http(20, None, True)}, args)
        return
    names = [] if args.served else args.sets
    report.need(args, "adult", *(name for name in names if name != "bank"))
    found = []
    for name in names:
        rows = like_a_bank() if name == "bank" else SETS[name](args.data_folder)
        found += lines(name, rows, TREES, TESTED)
    served = over_http(TESTED, args.cache, False)
    report.tell({"in time": found, "served": served}, args)


if __name__ == "__main__":
    main()
