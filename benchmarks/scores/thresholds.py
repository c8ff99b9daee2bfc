"""Do thresholds reach the recall or precision asked for, and find as much as can be?

python -m benchmarks thresholds                              all sets
python -m benchmarks thresholds --sets physionet --seeds 20  one of them

Each seed draws other items to build of; all others are fresh. The learner is
`hist_boosting`, trained on all columns. *sklearn* has the same learner with settings of
its own: scikit-learn's TunedThresholdClassifierCV, whose scorer is the precision where
the recall is reached (or the other way round), or the cost. *Goals reached* counts the
seeds whose fresh items have the recall or precision asked for. *Could be* is the
precision (or recall) of the best threshold of the same scores on the fresh items
themselves, which nobody knows beforehand. A positive that is missed costs 10, a false
alarm 1.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import make_scorer
from sklearn.model_selection import TunedThresholdClassifierCV

from polydom.features.threads import one_thread
from polydom.indexer import build
from polydom.indexer.building.project import Project
from polydom.indexer.building.training.decisions.thresholds import Goal, choose_cut
from polydom.models.selection.learners import make_learner

from .. import report
from ..data.tables import load_adult, read_physionet
from ..learners.expected import dataset_of

RECALL, PRECISION, MISS = 0.8, 0.5, 10.0
LEARNER = {"name": "hist_boosting"}
RARE = 0.03  # share of the positives that are kept of Adult

Rows = NDArray[np.float32]
Codes = NDArray[np.int64]
Flags = NDArray[np.bool_]
Items = tuple[Rows, Codes]


class Case(NamedTuple):
    """A set, and the number of its items that an index is built of."""

    read: Callable[[Path], Items]
    folder: str
    built: int


def rare_adult(folder: Path) -> Items:
    """Adult, of whose positives only so many are kept that they are 3 %."""
    X, y, Xt, yt = load_adult(folder)
    rows, codes = np.vstack([X, Xt]), np.concatenate([y, yt])
    positive, others = np.flatnonzero(codes), np.flatnonzero(codes == 0)
    kept = int(RARE / (1 - RARE) * len(others))
    drawn = np.random.default_rng(0).choice(positive, kept, replace=False)
    own = np.sort(np.concatenate([others, drawn]))
    return rows[own], codes[own]


def physionet(folder: Path) -> Items:
    """Stays in intensive care, of which 14 % end with a death."""
    X, y = read_physionet(folder)
    return X.astype(np.float32), y


def drawn(folder: Path) -> Items:
    """Two normal classes of which one has a tenth."""
    random = np.random.default_rng(0)
    codes = (random.random(2400) < 0.1).astype(np.int64)
    rows = random.normal(size=(len(codes), 6)) + 0.8 * codes[:, None]
    return rows.astype(np.float32), codes


SETS = {
    "adult 3 %, few": Case(rare_adult, "adult", 6000),
    "adult 3 %": Case(rare_adult, "adult", 20_000),
    "physionet": Case(physionet, "physionet", 6000),
}
QUICK = {"drawn": Case(drawn, "", 300)}

WAYS: dict[str, tuple[Goal | None, dict[str, Any]]] = {
    "default": (None, {}),
    "balanced weights": (None, {"measure": "balanced_accuracy"}),
    "precision at recall .8": (
        Goal("precision_at", RECALL),
        {"measure": "precision_at", "at": {"recall": RECALL}},
    ),
    "the same, sure by .8": (
        Goal("precision_at", RECALL),
        {"measure": "precision_at", "at": {"recall": RECALL, "confidence": 0.8}},
    ),
    "recall at precision .5": (
        Goal("recall_at", PRECISION),
        {"measure": "recall_at", "at": {"precision": PRECISION}},
    ),
    "cost": (
        Goal("cost", miss=MISS),
        {"measure": "cost", "costs": {"1": {"0": MISS}}, "positive": "1"},
    ),
}


class Found(NamedTuple):
    """Which fresh items count as positive, and their scores."""

    chosen: Flags
    scores: NDArray[np.float64]


def by_polydom(own: Items, fresh: Rows, seed: int, quality: Mapping[str, Any]) -> Found:
    """Build an index of one feature with all columns, and ask its model."""
    X, y = own
    names = [f"x{c}" for c in range(X.shape[1])]
    content = {
        "features": {"columns": [{"name": "all", "columns": names}]},
        "learner": LEARNER,
        "quality": quality,
        "exits": "off",
        "seed": seed,
        "workers": 1,
    }
    dataset = dataset_of(X, y, np.unique(y), False)
    with tempfile.TemporaryDirectory() as cache:
        project = Project.from_mapping(content)
        package = build(project, dataset=dataset, cache=cache).package
    assert package is not None
    model = package.models[-1]
    return Found(model.predict(fresh) == 1, model.predict_scores(fresh)[:, 1])


def by_sklearn(own: Items, fresh: Rows, seed: int, goal: Goal) -> Found:
    """Tune a threshold of the same learner by cross-validation."""
    model = TunedThresholdClassifierCV(
        make_learner(LEARNER, seed, "classes"), scoring=make_scorer(scored(goal))
    ).fit(*own)
    return Found(model.predict(fresh) == 1, model.predict_proba(fresh)[:, 1])


def scored(goal: Goal) -> Callable[[Codes, Codes], float]:
    """What answers are worth: what a goal asks to be large, where it is reached."""

    def score(labels: Codes, answers: Codes) -> float:
        recall, precision = rates(labels, answers == 1)
        if goal.name == "cost":
            return -cost(labels, answers == 1)
        held, wanted = recall, precision
        if goal.name == "recall_at":
            held, wanted = precision, recall
        return wanted if held >= goal.least else held - 1.0

    return score


def rates(labels: Codes, chosen: Flags) -> tuple[float, float]:
    """Recall and precision; without any alarm the precision is 1."""
    hits = float(np.sum(chosen & (labels == 1)))
    alarms = int(chosen.sum())
    return hits / max(1, int(labels.sum())), hits / alarms if alarms else 1.0


def cost(labels: Codes, chosen: Flags) -> float:
    """Mean cost of an answer."""
    missed = MISS * np.mean(~chosen & (labels == 1))
    return float(missed + np.mean(chosen & (labels == 0)))


def judged(labels: Codes, found: Found, goal: Goal | None) -> dict[str, float]:
    """What came of one seed."""
    recall, precision = rates(labels, found.chosen)
    line = {"recall": recall, "precision": precision}
    line["cost"] = cost(labels, found.chosen)
    if goal is None:
        return line
    if goal.name != "cost":
        held = recall if goal.name == "precision_at" else precision
        line["goals reached"] = float(held >= goal.least)
    cut = choose_cut(goal, found.scores, labels == 1, np.ones(len(labels)))
    best = found.scores >= cut.score
    place = ("recall_at", "precision_at").index(goal.name) if goal.least else 2
    line["could be"] = (*rates(labels, best), cost(labels, best))[place]
    return line


def compare(
    case: Case, folder: Path, seeds: int, names: Sequence[str] = tuple(WAYS)
) -> dict[str, dict[str, float]]:
    """Some ways on one set, as means over the seeds."""
    X, y = case.read(folder)
    told = dict[str, list[dict[str, float]]]()
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(len(y))
        own, rest = order[: case.built], order[case.built :]
        given, fresh, labels = (X[own], y[own]), X[rest], y[rest]
        for name in names:
            goal, quality = WAYS[name]
            found = by_polydom(given, fresh, seed, quality)
            told.setdefault(name, []).append(judged(labels, found, goal))
            if goal is not None and "confidence" not in quality.get("at", {}):
                found = by_sklearn(given, fresh, seed, goal)
                told.setdefault(f"{name}, sklearn", []).append(
                    judged(labels, found, goal)
                )
    return {
        name: {key: float(np.mean([one[key] for one in lines])) for key in lines[0]}
        for name, lines in told.items()
    }


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__, data=True)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=[*SETS])
    parser.add_argument("--seeds", type=int, default=10)
    given = parser.parse_args(arguments)
    sets, seeds, names = {k: SETS[k] for k in given.sets}, given.seeds, tuple(WAYS)
    if given.quick:
        sets, seeds, names = QUICK, 1, ("precision at recall .8",)
    else:
        report.need(given, *{case.folder for case in sets.values()})
    with one_thread():
        found = {
            f"{name}, {case.built:,} items": compare(
                case, given.data_folder, seeds, names
            )
            for name, case in sets.items()
        }
    report.tell({"seeds": seeds, **found}, given)


if __name__ == "__main__":
    main()
