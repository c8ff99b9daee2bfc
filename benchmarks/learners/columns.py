"""Whether an index that chooses among columns predicts as well as a model of all.

python -m benchmarks columns                        the sets that are there
python -m benchmarks columns --sets credit --measures accuracy --seeds 3

Records of which few are of the class that matters are drawn anew for each seed: those
to build of, and kept ones, which no build sees. A project with one `hist_boosting` and
everything else by default is built of them, once for each measure, and once more with
all columns as one feature, so that there is nothing to choose. Both indexes score the
kept records by their best plan. Told are the columns of that plan, the area under the
ROC curve and the average precision of both, in means over the seeds; `behind` is the
average precision that the choice loses, in points, with the standard error of the
paired difference on one seed's kept records. `us` is the median of a call in this
process.
"""

import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydom.features.threads import one_thread
from polydom.indexer import build
from polydom.indexer.building.project import Project
from polydom.indexer.building.training.quality import Answers, Metric
from polydom.models.measures import Evaluation
from polydom.server.engine.loading import load_index
from polydom.server.evaluation.labelled_items import LabelledItem, read_labelled
from polydom.server.evaluation.predictors import FixedPlan, IndexWithin
from polydom.server.runtime.translator import AtOnce
from polydom.server.runtime.warm_up import open_translator
from polydom.server.schema.wire import Terms

from .. import report
from ..data.rare_classes import Labelled, read_bank, read_credit, read_kddcup
from .default_sets import SETS as DEFAULTS
from .defaults import write_items

MEASURES = ("accuracy", "average_precision")
LARGE_MS = 1000.0
TIMED = 2000  # calls


class RareSet(NamedTuple):
    """Records with labels: how they are read, their folder, and the class of few."""

    read: Callable[[Path], Labelled]
    folder: str
    positive: str


class Judged(NamedTuple):
    """What an index does with the kept records."""

    columns: int  # of its best plan
    auc: Evaluation
    precision: Evaluation  # average precision
    call_us: float


def _tumours(folder: Path) -> Labelled:
    own, kept = DEFAULTS["tables"]["breast cancer"].load()
    return [({k: v for k, v in [*r.items()][:6]}, c) for r, c in [*own, *kept]]


SETS = {
    "credit": RareSet(read_credit, "credit", "default"),
    "kddcup99": RareSet(read_kddcup, "kddcup99", "break-in"),
    "bank": RareSet(read_bank, "bank", "deposit"),
}
QUICK = RareSet(_tumours, "", "class0")


def compare(given: RareSet, measure: str, args: Namespace) -> dict[str, Any]:
    """Compare for one set and measure: a row of the table, the mean of all seeds."""
    records = given.read(args.data_folder)
    pairs = []
    for seed in range(args.seeds):
        order = np.random.default_rng(seed).permutation(len(records)).tolist()
        count = min(args.rows, 2 * len(records) // 3)
        own = [records[k] for k in order[:count]]
        kept = [records[k] for k in order[count : count + args.kept]]
        pairs.append(
            [
                judge(own, kept, given.positive, project_of(measure, seed, args, more))
                for more in ({}, {"features": {"columns": [all_of(records)]}})
            ]
        )
    chosen, whole = zip(*pairs, strict=True)
    lost = [w.precision.parts - c.precision.parts for c, w in pairs]
    return {
        "rows": count,
        "columns": float(np.mean([one.columns for one in chosen])),
        "of": len(records[0][0]),
        "AUC": float(np.mean([one.auc.quality for one in chosen])),
        "of all": float(np.mean([one.auc.quality for one in whole])),
        "precision": float(np.mean([one.precision.quality for one in chosen])),
        "of all ": float(np.mean([one.precision.quality for one in whole])),
        "behind": 100 * float(np.mean([one.mean() for one in lost])),
        "+-": 100 * float(np.mean([one.std() / len(one) ** 0.5 for one in lost])),
        "us": float(np.mean([one.call_us for one in chosen])),
        "us of all": float(np.mean([one.call_us for one in whole])),
    }


def all_of(records: Labelled) -> dict[str, Any]:
    """Return one feature that has all columns."""
    return {"name": "all", "columns": [*records[0][0]]}


def project_of(
    measure: str, seed: int, args: Namespace, more: dict[str, Any]
) -> dict[str, Any]:
    """Return a project of the table `own.csv`."""
    project: dict[str, Any] = {
        "data": {"table": "own.csv"},
        "learner": {"name": "hist_boosting"},
        "quality": {"measure": measure},
        "seed": seed,
        "workers": 1,
    }
    if args.quick:
        project |= {"search": {"budget_s": 0.05}, "costs": {"items": 9, "repeats": 2}}
        project |= {"learner": {"name": "tree"}, "exits": "off"}
    return project | more


def judge(
    own: Labelled, kept: Labelled, positive: str, project: dict[str, Any]
) -> Judged:
    """Build of `own`, and let the index's best plan score `kept`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_items("tables", own, folder / "own.csv")
        write_items("tables", kept, folder / "kept.csv")
        build(Project.from_mapping(project, folder=folder), output=folder / "own.pdx")
        index, package = load_index(folder / "own.pdx")
        items = read_labelled(folder / "kept.csv", index, package, whole=True).items
    translator = open_translator(index, [])
    row = int(index.best(1.0, np.inf).row)
    plan = FixedPlan("all", translator, row)
    given = [plan.answer(item).scores or {} for item in items]
    scores = np.array([one.get(positive, 0.0) for one in given])
    of_it = np.array([item.label == positive for item in items])
    return Judged(
        len(translator.planner.feature_names[row]),
        evaluate("auc", scores, of_it),
        evaluate("average_precision", scores, of_it),
        time_calls(AtOnce(translator), items[:TIMED]),
    )


def evaluate(
    measure: str, scores: NDArray[np.float64], of_it: NDArray[np.bool_]
) -> Evaluation:
    """Evaluate scores (N,) of the class of which the items `of_it` (N,) are."""
    both, codes = np.column_stack([1 - scores, scores]), of_it.astype(np.int64)
    return Metric(measure, 2).evaluate(Answers(codes, both), codes, np.ones(len(codes)))


def time_calls(at_once: AtOnce, items: list[LabelledItem]) -> float:
    """Return the median of the microseconds that a call takes."""
    index, took_s = IndexWithin(at_once.answer, Terms(budget_ms=LARGE_MS)), []
    for item in items:
        begun_s = time.perf_counter()
        index.answer(item)
        took_s.append(time.perf_counter() - begun_s)
    return 1e6 * float(np.median(took_s))


def there(given: Namespace) -> dict[str, RareSet]:
    """Return the sets to compare on; say which are not there."""
    if given.quick:
        return {"breast cancer": QUICK}
    if given.sets:
        report.need(given, *(SETS[name].folder for name in given.sets))
        return {name: SETS[name] for name in given.sets}
    found = {
        name: own
        for name, own in SETS.items()
        if (given.data_folder / own.folder).is_dir()
    }
    for name in SETS.keys() - found.keys():
        print(f"{name} is left out: it is not in {given.data_folder}", file=sys.stderr)
    if not found:
        report.need(given, *SETS)
    return found


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__, data=True)
    parser.add_argument("--sets", nargs="+", choices=SETS, metavar="SET")
    parser.add_argument("--measures", nargs="+", default=MEASURES)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=20_000, help="to build of")
    parser.add_argument("--kept", type=int, default=20_000, help="kept at most")
    given = parser.parse_args(arguments)
    if given.quick:
        given.seeds, given.rows, given.kept, given.measures = 1, 90, 60, MEASURES[1:]
    with one_thread():
        rows = [
            {"set": name, "measure": measure, **compare(own, measure, given)}
            for name, own in there(given).items()
            for measure in given.measures
        ]
    report.tell({"columns chosen, and all": rows}, given)


if __name__ == "__main__":
    main()
