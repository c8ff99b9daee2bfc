"""How right are the scores of a default build: uncalibrated, calibrated, and early?

python -m benchmarks probabilities                          all sets
python -m benchmarks probabilities --sets scenes adult      some of them

For each set, what `polydom init` writes is built. Items that no build has seen are then
asked three times, within a second: without the calibration that the build stored, with
it, and as served, where an answer may come early: with a forest; quick models have no
exits by default. `early` is the share that does. Log
loss, Brier score and expected calibration error are of the scores of all answers; AUC,
too.
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from polydom.features.threads import one_thread
from polydom.indexer.index.index import Index
from polydom.models import measures
from polydom.models.scoring.classifier import Classifier
from polydom.models.scoring.model import Model
from polydom.server.engine.loading import load_index
from polydom.server.evaluation.comparison import Comparison, Trial
from polydom.server.evaluation.labelled_items import read_labelled
from polydom.server.evaluation.predictors import IndexWithin
from polydom.server.runtime.translator import AtOnce
from polydom.server.runtime.warm_up import open_translator
from polydom.server.schema.wire import Terms

from .. import report
from ..data.tables import read_physionet
from ..learners import default_sets
from ..learners.default_sets import Divided, cut, divide
from ..learners.defaults import ENDINGS, Kind, build_default, write_items
from ..places import data_folder

BUDGET_MS = 1000.0
ASKED = 3000  # most items of a set
QUICK_ITEMS = 90
FOREST = {"name": "forest", "n_estimators": 300, "min_samples_leaf": 3}
MEASURES = {
    "log loss": measures.log_loss,
    "Brier": measures.brier,
    "calibration error": measures.calibration_error,
    "AUC": measures.auc,
}


class Case(NamedTuple):
    """A set: the kind of its items, how it is read, and the folder of its files."""

    kind: Kind
    load: Callable[[], Divided]
    folder: str | None = None
    learner: dict[str, Any] | None = None  # Instead of the default


def stays() -> Divided:
    """12,000 stays in intensive care, with gaps, a third of them kept."""
    X, y = read_physionet(data_folder())
    cells = [["" if np.isnan(one) else one for one in row] for row in X.tolist()]
    records = ({f"x{j}": one for j, one in enumerate(row)} for row in cells)
    labels = ["lived", "died"]
    return divide((row, labels[code]) for row, code in zip(records, y, strict=True))


def known(kind: Kind, name: str, learner: dict[str, Any] | None = None) -> Case:
    """A set that defaults are compared on."""
    found = default_sets.SETS[kind][name]
    return Case(kind, found.load, found.folder, learner)


SETS = {
    "scenes": known("images", "scenes"),
    "messages": known("texts", "messages"),
    "reviews": known("texts", "reviews"),
    "adult": known("tables", "adult"),
    "physionet": Case("tables", stays, "physionet"),
    "adult, forest": known("tables", "adult", FOREST),
}
QUICK = {"wine": known("tables", "wine")}


def plain(index: Index) -> Index:
    """An index without the calibrations that its build stored."""
    package = index.package
    assert package is not None
    models = tuple(map(_plain_model, package.models))
    return replace(index, package=replace(package, models=models))


def _plain_model(model: Model) -> Model:
    if not isinstance(model, Classifier):
        return model
    return replace(model, head=replace(model.head, calibration=None, threshold=None))


def measured(
    trials: Sequence[Trial], place: int, labels: Sequence[str]
) -> dict[str, float | None]:
    """What the answers of one way show; None where an answer has no probabilities."""
    answers: list[Any] = [one.replies[place].answer for one in trials]
    own = np.array([labels.index(one.item.label) for one in trials])
    chosen = np.array([labels.index(one.label) for one in answers])
    early = np.mean([getattr(one, "early", False) is True for one in answers])
    line: dict[str, float | None] = {
        "early": float(early),
        "accuracy": float((chosen == own).mean()),
    }
    if any(one.scores is None for one in answers):
        return line | dict.fromkeys(MEASURES)
    scores = np.array([[one.scores[label] for label in labels] for one in answers])
    probable = measures.are_probabilities(scores)
    for name, measure in MEASURES.items():
        line[name] = measure(own, scores) if probable or name == "AUC" else None
    return line


def judge(case: Case, quick: bool) -> list[dict[str, Any]]:
    """A line for each way to ask an index of one set."""
    own, kept = case.load()
    if quick:
        own = cut(own, QUICK_ITEMS)
    kept = cut(kept, ASKED)
    with tempfile.TemporaryDirectory() as given:
        folder = Path(given)
        made = build_default(case.kind, own, 0, folder, quick, case.learner)
        index, package = load_index(made)
        place = folder / f"kept{ENDINGS[case.kind]}"
        write_items(case.kind, kept, place)
        items = read_labelled(place, index, package, whole=True).items
        ways = {
            "uncalibrated": (plain(index), True),
            "calibrated": (index, True),
            "as served": (index, False),
        }
        asked = [
            IndexWithin(
                AtOnce(open_translator(one, [])).answer,
                Terms(budget_ms=BUDGET_MS, exact=exact),
            )
            for one, exact in ways.values()
        ]
        found = Comparison(items, asked, seed=0)
        found.warm_up()
        found.run(lambda done, left=None: None)
    told = package.meta.get("calibration") or [None] * len(package.models)
    best = int(np.argmax(index.qualities))
    form = (told[best] or {}).get("form") or "none"
    name = package.meta["learner"]["name"]
    return [
        {"scores": way, "learner": name, "calibration": form}
        | measured(found.trials, at, package.labels)
        for at, way in enumerate(ways)
    ]


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__, data=True)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=[*SETS])
    given = parser.parse_args(arguments)
    sets = QUICK if given.quick else {name: SETS[name] for name in given.sets}
    report.need(given, *(one.folder for one in sets.values() if one.folder))
    with one_thread():
        found = {name: judge(case, given.quick) for name, case in sets.items()}
    report.tell(found, given)


if __name__ == "__main__":
    main()
