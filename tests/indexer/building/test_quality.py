"""Indexes built for another quality than accuracy: sets, weights, what is promised."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from polydom.features.errors import BadIndexFile, BadProject
from polydom.indexer import Index, build
from polydom.indexer.building.project import Project
from polydom.models import measures
from tests.support.builds.staged_build import StagedBuild

ROWS = 600
COSTS = {"spam": {"ham": 1}, "ham": {"spam": 20}}


def table(folder: Path) -> None:
    """Three classes, one of them rare, of which four columns tell more and more."""
    rng = np.random.default_rng(5)
    codes = rng.choice(3, ROWS, p=[0.75, 0.2, 0.05])
    names = np.array(["ham", "spam", "trap"])
    columns = [codes + rng.normal(size=ROWS) * noise for noise in (2.5, 1.5, 1.0, 0.8)]
    lines = ["a,b,c,d,label"]
    for row in range(ROWS):
        cells = ",".join(f"{column[row]:.4f}" for column in columns)
        lines.append(f"{cells},{names[codes[row]]}")
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")


def project(folder: Path, quality: dict[str, Any], **more: Any) -> Project:
    content = {
        "data": {"table": "rows.csv"},
        "learner": {"name": "logistic"},
        "quality": quality,
        "search": {"budget_s": 2.0, "held_out": 0.25},
        "workers": 1,
        **more,
    }
    return Project.from_mapping(content, folder=folder)


def builder(folder: Path, quality: dict[str, Any], **more: Any) -> StagedBuild:
    made = project(folder, quality, **more)
    return StagedBuild(made, folder / "cache")


MEASURED: dict[str, dict[str, Any]] = {
    "balanced_accuracy": {},
    "macro_f1": {},
    "auc": {},
    "average_precision": {},
    "log_loss": {},
    "cost": {"costs": COSTS},
}


@pytest.mark.parametrize("measure", MEASURED)
def test_index_is_ordered_by_what_is_asked_for(tmp_path: Path, measure: str) -> None:
    table(tmp_path)
    quality = {"measure": measure, **MEASURED[measure]}
    search = {"budget_s": 2.0, "held_out": 0.25, "negligible_us": 0.0}
    made = builder(tmp_path, quality, exits="off", search=search)
    index = made.index()
    package = index.package
    assert package is not None
    assert package.measure == measure
    observed = np.array(package.meta["observed"])
    assert (index.qualities <= observed + 1e-6).all()
    assert (package.accuracies > 0).all()
    # what was measured is the measure of the models' answers for what was held out
    ((_, test),) = made.data.splits
    values, codes = made.table.values[test], made.table.dataset.codes[test]
    for mask, found in zip(package.masks.tolist(), observed, strict=True):
        model = made.trainer.model(mask)
        chosen, scores = model.predict(values), model.predict_scores(values)
        assert found == pytest.approx(defined(measure, codes, chosen, scores))
        share = float(np.mean(chosen == codes))
        (accuracy,) = package.accuracies[package.masks == mask]
        assert accuracy <= share + 1e-9
    # the best of all sets that were trained is kept, and nothing promises more
    assert observed.max() == max(made.searched.qualities.values())
    best = index.best(1, 10.0)
    assert index.qualities[observed.argmax()] == best.quality == index.qualities.max()
    index.save(tmp_path / "a.pdx")
    again = Index.load(tmp_path / "a.pdx")
    assert again.package is not None
    assert again.package.measure == measure
    assert again.package.accuracies.tolist() == package.accuracies.tolist()
    assert again.qualities.tolist() == index.qualities.tolist()
    costs = again.package.confusion_costs
    assert (costs is not None) == (measure == "cost")
    if costs is not None:
        assert costs.tolist() == [[0, 20, 1], [1, 0, 1], [1, 1, 0]]
        packed = package.meta["confusion_costs"]
        for damaged in (packed[:2], [[0.0] * 3] * 3, [[np.inf] * 3] * 3):
            meta = {**package.meta, "confusion_costs": damaged}
            broken = replace(index, package=replace(package, meta=meta))
            broken.save(tmp_path / "b.pdx")
            with pytest.raises(BadIndexFile, match="damaged"):
                Index.load(tmp_path / "b.pdx")


def defined(
    measure: str,
    codes: NDArray[np.int64],
    chosen: NDArray[np.int64],
    scores: NDArray[np.float64],
) -> float:
    if measure in ("auc", "average_precision"):
        return float(getattr(measures, measure)(codes, scores))
    if measure == "log_loss":
        return float(np.exp(-measures.log_loss(codes, scores)))
    if measure == "cost":
        costs = np.array([[0, 20, 1], [1, 0, 1], [1, 1, 0]])
        return float(1 - costs[codes, chosen].mean() / 20)
    return float(getattr(measures, measure)(codes, chosen))


def test_rare_classes_are_found_where_all_count_alike(tmp_path: Path) -> None:
    table(tmp_path)
    equal = builder(tmp_path, {}, exits="off")
    balanced = builder(tmp_path, {"measure": "balanced_accuracy"}, exits="off")
    mask = 15
    ((_, test),) = equal.data.splits
    values, codes = equal.table.values[test], equal.table.dataset.codes[test]
    assert [*equal.trainer.qualities([mask])] > [0]
    assert [*balanced.trainer.qualities([mask])] > [0]

    def recall(made: StagedBuild) -> float:
        chosen = made.trainer.model(mask).predict(values)
        return float(np.mean(chosen[codes == 2] == 2))

    assert recall(balanced) > recall(equal)
    same = builder(tmp_path, {"measure": "balanced_accuracy", "class_weights": "equal"})
    assert "class_weights" not in same.trainer.task.items
    named = builder(tmp_path, {"class_weights": {"trap": 3.0}})
    weights = named.trainer.task.items["class_weights"]
    assert weights[2] == pytest.approx(3 * weights[0])
    # a learner that takes no weights is balanced only if that is asked for
    lda = {"name": "lda"}
    plain = builder(tmp_path, {"measure": "balanced_accuracy"}, learner=lda)
    assert "class_weights" not in plain.trainer.task.items
    asked = builder(tmp_path, {"class_weights": "balanced"}, learner=lda)
    with pytest.raises(BadProject, match="LinearDiscriminantAnalysis takes none"):
        _ = asked.table


def test_dear_mistakes_are_made_less_often(tmp_path: Path) -> None:
    table(tmp_path)
    usual = builder(tmp_path, {}, exits="off")
    careful = builder(tmp_path, {"measure": "cost", "costs": COSTS}, exits="off")
    ((_, test),) = usual.data.splits
    values, codes = usual.table.values[test], usual.table.dataset.codes[test]
    lost = []
    for made in (usual, careful):
        assert [*made.trainer.qualities([15])] > [0]
        chosen = made.trainer.model(15).predict(values)
        lost.append(np.sum((codes == 0) & (chosen == 1)))
    assert lost[1] < lost[0]


def test_tolerance_is_what_violations_show(tmp_path: Path) -> None:
    table(tmp_path)
    for method in ("progressive", "poly-dom"):
        search = {"method": method, "budget_s": 5.0}
        made = builder(tmp_path, {"measure": "macro_f1"}, search=search, exits="off")
        facts = made.searched.facts
        assert facts["tolerance"] > 0
        if method == "poly-dom":  # which goes on until no more is measured
            assert facts["complete"]
            assert facts["tolerance"] >= facts["violations"]["p95"]
        named = {**search, "tolerance": 0.0}
        made = builder(tmp_path, {"measure": "macro_f1"}, search=named, exits="off")
        assert made.searched.facts["tolerance"] == 0
    assert builder(tmp_path, {}, exits="off").searched.facts["tolerance"] == 0


def test_scores_that_are_judged_are_given_whole(tmp_path: Path) -> None:
    table(tmp_path)
    assert project(tmp_path, {}).exit_goal is not None
    assert project(tmp_path, {"measure": "auc"}).exit_goal is None
    asked = project(tmp_path, {"measure": "auc"}, exits={"alpha": 0.01})
    assert asked.exit_goal is not None


def test_quality_expected_is_what_fresh_items_show(tmp_path: Path) -> None:
    table(tmp_path)
    index = build(project(tmp_path, {"measure": "macro_f1"}, search={"folds": 5}))
    assert index.package is not None
    for row in range(len(index.qualities)):
        assert index.qualities[row] <= index.package.meta["observed"][row] + 1e-6


@pytest.mark.parametrize(
    ("quality", "more", "message"),
    [
        ({"measure": "acuracy"}, {}, "quality.measure"),
        ({"measure": "cost"}, {}, "measure = 'cost' needs costs"),
        ({"costs": COSTS}, {}, r"\[quality\] costs needs measure = 'cost'"),
        ({"measure": "r2"}, {"learner": "tree"}, "the column holds words; for task"),
        (
            {"measure": "r2"},
            {"task": "classes"},
            "measure is 'r2', and the labels are classes",
        ),
        ({"measure": "auc"}, {"task": "regression"}, "'auc', and the labels are numb"),
        (
            {"class_weights": "balanced"},
            {"task": "regression"},
            "class_weights is for classes",
        ),
        ({"measure": "log_loss"}, {"learner": "linear_svm"}, "'linear_svm' gives none"),
        (
            {"measure": "cost", "costs": {"spam": {"hum": 1}}},
            {},
            r"costs: no class 'hum'; did you mean 'ham'",
        ),
        ({"class_weights": {"hum": 1.0}}, {}, "class_weights: no class 'hum'"),
        ({"class_weights": {"ham": 0.0}}, {}, "class_weights"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_slow(
    tmp_path: Path, quality: dict[str, Any], more: dict[str, Any], message: str
) -> None:
    table(tmp_path)
    with pytest.raises(BadProject, match=message):
        _ = builder(tmp_path, quality, **more).table
    assert not list(tmp_path.glob("cache/**/*.pdx"))
