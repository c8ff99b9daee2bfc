"""How good are the class scores of early answers, beside those of the whole model?

python -m benchmarks forecasts                Adult and covtype20k
python -m benchmarks forecasts --sets adult   one of them

Models are trained on three quarters of the training rows; exits and their class scores
are fitted to the rest, without labels, for a share of 0.5 % of changed decisions of
each class. All numbers are of the test rows: `of all` counts every answer, early or
whole, as a caller gets them; `early` only those that came early, and `whole` is the
whole model's scores for the same rows. Microseconds are the processor's, of one answer
with scores: the mean of the best of several passes.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

from polydom.models import Ensemble, compile, measures

from .. import report
from ..data.bundled import load_tumours
from ..data.tables import SETS, Codes, Rows, Split
from ..models.boosting import TREES
from .qwyc import train

ALPHA = 0.005
PASSES = 9  # over the timed rows
TIMED = 2_000  # rows
Scores = NDArray[np.float64]


def models(X: Rows, y: Codes, trees: int) -> dict[str, Ensemble]:
    """Ensembles to stop early, compiled."""
    boosting = HistGradientBoostingClassifier(max_iter=trees // 5, random_state=0)
    forest = RandomForestClassifier(trees, min_samples_leaf=3, n_jobs=1, random_state=0)
    return {
        f"hist_boosting, {trees // 5} trees": compile(boosting.fit(X, y)),
        f"LightGBM, {trees} trees": train(X, y, trees),
        f"forest, {trees} trees": compile(forest.fit(X, y)),
    }


def compared(name: str, rows: Split, trees: int) -> list[dict[str, Any]]:
    """A line for each model of one data set."""
    X, y, Xt, yt = rows
    kept = 3 * len(X) // 4
    found = []
    for model, ensemble in models(X[:kept], y[:kept], trees).items():
        exits = ensemble.fit_early_exit(X[kept:], alpha=ALPHA)
        whole, given = ensemble.predict_scores(Xt), exits.predict_scores(Xt)
        used = exits.choices(Xt)[1]
        early = used < exits.size
        timed = list(np.ascontiguousarray(Xt[:TIMED]))
        line: dict[str, Any] = {"set": name, "model": model}
        line |= {"early": float(early.mean()), "mean trees": float(used.mean())}
        line |= pair("AUC of all", measures.auc, yt, given, whole)
        line |= pair("log loss of all", measures.log_loss, yt, given, whole)
        some = yt[early], given[early], whole[early]
        line |= pair("Brier early", measures.brier, *some)
        line |= pair("calibration error early", measures.calibration_error, *some)
        line["us"] = mean_us(exits.answer, timed)
        line["us, whole"] = mean_us(ensemble.classifier.answer, timed)
        found.append(line)
    return found


def pair(
    title: str,
    measure: Callable[[Codes, Scores], float],
    codes: Codes,
    given: Scores,
    whole: Scores,
) -> dict[str, float]:
    """A measure of the given scores, and of the whole model's."""
    return {title: measure(codes, given), f"{title}, whole": measure(codes, whole)}


def mean_us(answer: Callable[[Rows], Any], rows: list[Rows]) -> float:
    """Processor microseconds of an answer to one row, in the best of several passes."""
    best = np.inf
    for _ in range(PASSES):
        begun = time.process_time()
        for row in rows:
            answer(row)
        best = min(best, time.process_time() - begun)
    return float(best / len(rows) * 1e6)


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__, data=True)
    sets = ["adult", "covtype20k"]
    parser.add_argument("--sets", nargs="+", choices=SETS, default=sets)
    args = parser.parse_args(arguments)
    if args.quick:
        report.tell({"scores": compared("tumours", load_tumours(), 20)}, args)
        return
    report.need(args, *args.sets)
    folder = args.data_folder
    lines = [
        line for name in args.sets for line in compared(name, SETS[name](folder), TREES)
    ]
    report.tell({"scores": lines}, args)


if __name__ == "__main__":
    main()
