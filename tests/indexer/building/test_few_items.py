"""Few items are cross-validated, where nothing says otherwise."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from polydom.features.threads import one_thread
from polydom.indexer.building.divide_items import splits_of
from polydom.indexer.building.project import Project
from polydom.indexer.building.project_tables.search import FOLDS
from tests.support.builds.staged_build import StagedBuild

ENOUGH = 4780  # an eighth is 598, the fewest that can promise a rate of 0.005


def builder(folder: Path, rows: int, *, rare: int = 0, **more: Any) -> StagedBuild:
    """Of a table of two classes, and of a third that comes `rare` times."""
    lines = [f"{k % 7},{k // 2},{k},{'ab'[k % 7 > 3]}" for k in range(rows - rare)]
    lines += [f"9,{rows + k},{rows + k},c" for k in range(rare)]
    (folder / "a.csv").write_text("\n".join(["x,pair,t,label", *lines]))
    content = {
        "data": {"table": "a.csv", "ignore": ["pair", "t"]} | more.pop("data", {}),
        "learner": "tree",
        "workers": 1,
        **more,
    }
    project = Project.from_mapping(content, folder=folder)
    return StagedBuild(project, folder / "cache")


@pytest.mark.parametrize(
    ("rows", "more", "folds"),
    [
        (ENOUGH - 1, {}, FOLDS),
        (ENOUGH - 1, {"exits": "off"}, FOLDS),
        (ENOUGH, {}, None),
        (ENOUGH, {"exits": "off"}, None),
        (2 * ENOUGH - 2, {"data": {"group": "pair", "ignore": ["t"]}}, FOLDS),
        (200, {"quality": {"measure": "auc"}}, FOLDS),
        (200, {"search": {"folds": 3}}, 3),
        (200, {"search": {"held_out": 0.25}}, None),
        (200, {"search": {"refit": False}}, None),
        (200, {"exits": {"alpha": 0.1}}, None),
        (200, {"exits": {"confidence": 0}}, None),
        (200, {"data": {"time": "t", "split": "time", "ignore": ["pair"]}}, None),
        (200, {"data": {"test": "a.csv"}}, None),
        (200, {"rare": FOLDS}, FOLDS),
        (200, {"rare": FOLDS - 1}, None),
        (200, {"rare": 2, "data": {"on_rare_class": "train"}}, FOLDS),
        (6, {"data": {"on_rare_class": "train"}}, None),
    ],
)
def test_few_items_are_divided_into_folds_unless_something_is_asked_for(
    tmp_path: Path, rows: int, more: dict[str, Any], folds: int | None
) -> None:
    made = builder(tmp_path, rows, **more)
    assert made.terms.project.search.folds == folds
    whole = made.whole
    assert len(whole.items) == rows * (1 + ("test" in more.get("data", {})))
    if not more.get("data", {}).get("test"):
        rest, parts = made.divided.rest, made.divided.parts
        assert len(splits_of(rest, parts, made.terms)) == (folds or 1)


@pytest.mark.parametrize(
    ("quality", "folds"),
    [
        ({"measure": "precision_at", "at": {"recall": 0.8}}, FOLDS),
        ({"measure": "cost", "costs": {"a": {"b": 9.0}}}, FOLDS),
        ({"measure": "auc"}, None),
    ],
)
def test_a_threshold_needs_as_many_items_of_the_rarer_class(
    tmp_path: Path, quality: dict[str, Any], folds: int | None
) -> None:
    made = builder(tmp_path, ENOUGH, quality=quality)  # of which 3 in 7 are rarer
    assert made.terms.project.search.folds == folds
    if folds:
        assert "of 'b' there are 25" in made.terms.lacking


def test_few_numbers_are_divided_into_folds_too(tmp_path: Path) -> None:
    for rows, folds in [(4, None), (5, FOLDS), (ENOUGH - 1, FOLDS), (ENOUGH, None)]:
        lines = [f"{k % 7},{k + 0.5}" for k in range(rows)]
        (tmp_path / "a.csv").write_text("\n".join(["x,label", *lines]))
        content = {"data": {"table": "a.csv"}, "task": "regression", "learner": "tree"}
        project = Project.from_mapping(content, folder=tmp_path)
        made = StagedBuild(project, tmp_path / "cache")
        assert made.terms.project.search.folds == folds


def test_models_of_few_items_are_judged_in_turn_and_trained_on_all(
    tmp_path: Path,
) -> None:
    made = builder(tmp_path, 300)
    package = made.index().package
    assert package is not None
    values, dataset = made.table.values.astype(np.float64), made.table.dataset
    right = np.zeros(300, np.bool_)
    with one_thread():
        for train, test in made.data.splits:
            tree = DecisionTreeClassifier(random_state=0)
            tree.fit(values[train], dataset.codes[train])
            right[test] = tree.predict(values[test]) == dataset.codes[test]
        whole = DecisionTreeClassifier(random_state=0).fit(values, dataset.codes)
    # where time is up, a model of the last fold serves
    judged = made.trainer.model(1).predict(made.table.values)
    assert judged.tolist() == tree.predict(values).tolist()
    best = int(np.flatnonzero(package.masks == 1)[0])
    assert package.meta["observed"][best] == pytest.approx(right.mean())
    assert package.meta["tested"] == 300
    assert all(package.meta["refitted"])
    given = package.models[best].predict(made.table.values)
    assert given.tolist() == whole.predict(values).tolist()
    assert "at least 598 independent items" in package.meta["exits"]["lacking"]
    off = builder(tmp_path, 300, exits="off").index().package
    assert off is not None
    assert off.meta["exits"] == {}
