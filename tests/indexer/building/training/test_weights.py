"""Models and accuracies of items that count more than others."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from polydom.features.errors import BadProject
from polydom.features.threads import one_thread
from polydom.indexer.building.learner_race import choose_learner
from polydom.indexer.building.project import Project
from polydom.models.selection.arms import weighing
from polydom.models.selection.learners import make_learner
from tests.support.builds import few_learners
from tests.support.builds.staged_build import StagedBuild


def builder(folder: Path, learner: Any, **data: Any) -> StagedBuild:
    """Of a table whose last third has the other classes, and weighs more."""
    rows = []
    for k in range(240):
        late = k >= 160
        rows.append(f"{k % 5},{'ab'[(k % 5 > 2) ^ late]},{4 if late else 1}")
    (folder / "a.csv").write_text("\n".join(["x,label,w", *rows]))
    content = {
        "data": {"table": "a.csv", **data},
        "learner": learner,
        "search": {"held_out": 0.25},
        "exits": "off",
        "workers": 1,
    }
    project = Project.from_mapping(content, folder=folder)
    return StagedBuild(project, folder / "cache")


def test_weights_train_and_count(tmp_path: Path) -> None:
    weighed = builder(tmp_path, "tree", weight="w")
    dataset, values = weighed.table.dataset, weighed.table.values
    ((train, test),) = weighed.data.splits
    assert dataset.weights is not None
    tree = DecisionTreeClassifier(random_state=0)
    codes, weights = dataset.codes, dataset.weights
    tree.fit(values[train].astype(float), codes[train], sample_weight=weights[train])
    is_right = tree.predict(values[test].astype(float)) == codes[test]
    accuracy = weights[test][is_right].sum() / weights[test].sum()
    nothing, whole = weighed.trainer.qualities([0, 1])
    assert whole == pytest.approx(accuracy)
    shares = np.bincount(codes[train], weights[train])
    most = codes[test] == shares.argmax()
    assert nothing == pytest.approx(weights[test][most].sum() / weights[test].sum())
    alike = builder(tmp_path, "tree", ignore=["w"])
    assert [*alike.trainer.qualities([0, 1])] != [nothing, whole]


@pytest.mark.parametrize("name", ["logistic", "hist_boosting", "naive_bayes"])
def test_learners_take_weights_also_behind_preparations(name: str) -> None:
    estimator = make_learner({"name": name}, 0)
    X = np.repeat([[0.0], [0.0], [1.0]], 30, axis=0)
    y = np.repeat([0, 1, 1], 30)
    for first, choice in ((9.0, 0), (0.1, 1)):
        weights = np.repeat([first, 1.0, 1.0], 30)
        with one_thread():
            estimator.fit(X, y, **weighing(estimator, weights))
        assert estimator.predict([[0.0]]).tolist() == [choice]


def test_learner_that_takes_no_weights_is_named_before_anything_is_read(
    tmp_path: Path,
) -> None:
    discriminant = "sklearn.discriminant_analysis:LinearDiscriminantAnalysis"
    unweighed = builder(tmp_path, discriminant, weight="w")
    (tmp_path / "a.csv").unlink()
    with pytest.raises(BadProject, match="LinearDiscriminantAnalysis takes none"):
        _ = unweighed.table


def test_a_race_weighs_items_and_leaves_out_who_takes_no_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_learners.use(monkeypatch, "tree", "lda")
    stages = builder(tmp_path, "auto", weight="w")
    race = choose_learner(stages.data, stages.own).facts
    assert set(race["curves"]) == {"tree"}
    stages = builder(tmp_path, "auto", ignore=["w"])
    alike = choose_learner(stages.data, stages.own).facts
    assert set(alike["curves"]) == {"tree", "lda"}
    # a third of the items has the other classes, and two thirds of the weight
    assert race["score"] == pytest.approx(2 / 3, abs=0.1)
