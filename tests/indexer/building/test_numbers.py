"""Indexes of numbers: what is learned, promised and kept, for tables and texts."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import mean_absolute_error, r2_score

from polydom.features.errors import BadProject
from polydom.indexer import Index, build
from polydom.indexer.building.costs.remeasure import remeasure
from polydom.indexer.building.project import Project
from polydom.indexer.progress import Silence
from tests.support.builds.staged_build import StagedBuild

ROWS = 800


def table(
    folder: Path, rows: int = ROWS, name: str = "rows.csv", seed: int = 3
) -> None:
    """Numbers that three of four columns tell, and a tenth of noise."""
    rng = np.random.default_rng(seed)
    cells = np.round(rng.normal(size=(rows, 4)), 4)
    labels = 100 + 20 * cells[:, 0] + 10 * abs(cells[:, 1]) + 5 * cells[:, 2]
    labels += 3 * rng.normal(size=rows)
    lines = [
        ",".join(map(str, [*row, f"{y:.3f}"]))
        for row, y in zip(cells, labels, strict=True)
    ]
    (folder / name).write_text("\n".join(["a,b,c,d,label", *lines]) + "\n")


def builder(folder: Path, **more: Any) -> StagedBuild:
    content = {
        "data": {"table": "rows.csv"},
        "learner": {"name": "tree", "min_samples_leaf": 5},
        "search": {"budget_s": 2.0},
        "workers": 1,
        **more,
    }
    project = Project.from_mapping(content, folder=folder)
    return StagedBuild(project, folder / "cache")


@pytest.mark.parametrize("measure", ["r2", "mae"])
def test_index_of_numbers_keeps_what_was_measured(tmp_path: Path, measure: str) -> None:
    table(tmp_path)
    quality = {} if measure == "r2" else {"measure": "mae"}
    made = builder(
        tmp_path,
        quality=quality,
        search={"budget_s": 2.0, "held_out": 0.25, "refit": False},
    )
    index = made.index()
    package = index.package
    assert package is not None
    assert package.measure == measure
    assert package.labels == ()
    numbers = made.table.dataset.numbers
    assert numbers is not None
    ((_, test),) = made.data.splits
    values, labels = made.table.values[test], numbers[test]
    around = mean_absolute_error(labels, np.full(len(labels), np.median(labels)))
    for row, model in enumerate(package.models):
        answers = model.predict(values)
        if measure == "r2":
            expected = max(r2_score(labels, answers), 0)
        else:
            expected = max(1 - mean_absolute_error(labels, answers) / around, 0)
        observed = package.meta["observed"][row]
        assert observed == pytest.approx(expected)
        assert index.qualities[row] <= observed + 1e-6
        low, high = package.intervals[row]
        inside = (low <= labels - answers + 1e-5) & (labels - answers - 1e-5 <= high)
        assert np.mean(inside) >= 0.9
        error = package.meta["numbers"]["mae"][row]
        assert error == pytest.approx(mean_absolute_error(labels, answers), rel=1e-5)
    prior = package.models[int(np.flatnonzero(package.masks == 0)[0])]
    ((train, _),) = made.data.splits
    assert prior.predict(values[:1]) == pytest.approx(numbers[train].mean())
    index.save(tmp_path / "a.pdx")
    again = Index.load(tmp_path / "a.pdx").package
    assert again is not None
    assert again.intervals.tolist() == package.intervals.tolist()
    for one, other in zip(package.models, again.models, strict=True):
        assert one.predict(values).tolist() == other.predict(values).tolist()


def test_expected_quality_and_intervals_hold_for_fresh_rows(tmp_path: Path) -> None:
    table(tmp_path)
    table(tmp_path, 4000, "fresh.csv", seed=4)
    made = builder(tmp_path, learner={"name": "hist_boosting", "max_iter": 40})
    index = made.index()
    package = index.package
    assert package is not None
    fresh = np.loadtxt(tmp_path / "fresh.csv", delimiter=",", skiprows=1)
    best = index.best(1, 10.0)
    answers = package.models[best.row].predict(fresh[:, :4].astype(np.float32))
    found = r2_score(fresh[:, 4], answers)
    assert best.quality == pytest.approx(found, abs=0.02)
    assert best.quality < found + 0.01  # trained again on all, it is rather better
    low, high = package.intervals[best.row]
    missed = fresh[:, 4] - answers
    assert np.mean((low <= missed) & (missed <= high)) == pytest.approx(0.9, abs=0.03)
    assert {"a", "b", "c"} <= {*package.names(best.row)}


def test_numbers_go_with_folds_time_weights_and_a_test_split(tmp_path: Path) -> None:
    table(tmp_path)
    table(tmp_path, 200, "new.csv", seed=4)
    lines = (tmp_path / "rows.csv").read_text().splitlines()
    timed = ["t,w," + lines[0]]
    timed += [f"{n},{1 + n % 3},{line}" for n, line in enumerate(lines[1:])]
    (tmp_path / "timed.csv").write_text("\n".join(timed) + "\n")
    for data, search in [
        ({"table": "rows.csv"}, {"folds": 3, "budget_s": 1.0}),
        ({"table": "rows.csv", "test": "new.csv"}, {"budget_s": 1.0}),
        ({"table": "timed.csv", "time": "t", "split": "time", "weight": "w"}, {}),
    ]:
        made = builder(tmp_path, data=data, search={"budget_s": 1.0, **search})
        index = made.index()
        assert index.best(1, 10.0).quality > 0.5
        assert index.package is not None
        assert index.package.measure == "r2"


def test_numbers_are_learned_from_texts(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    words = np.array(
        ["good", "fine", "fair", "bad", "awful", "film", "plot", "the", "a", "of"]
    )
    worth = np.array([2.0, 1.0, 0.5, -1.0, -2.0, 0, 0, 0, 0, 0])
    lines = []
    for _ in range(400):
        own = rng.integers(0, len(words), rng.integers(3, 20))
        stars = 5 + worth[own].sum() + 0.3 * rng.normal()
        lines.append(
            json.dumps({"text": " ".join(words[own]), "label": round(stars, 3)})
        )
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n")
    made = builder(
        tmp_path,
        data={"texts": "a.jsonl"},
        features={"use": ["text_length", "learned_words"]},
        learner={"name": "ridge"},
    )
    index = made.index()
    best = index.best(float(np.median(made.table.dataset.sizes)), 10.0)
    assert best.quality > 0.7
    assert index.package is not None
    assert "learned_words" in index.package.names(best.row)


def test_the_same_project_gives_the_same_index_of_numbers(tmp_path: Path) -> None:
    table(tmp_path, 300)
    one, other = (builder(tmp_path).index() for _ in range(2))
    one.save(tmp_path / "a.pdx")
    other.save(tmp_path / "b.pdx")
    assert (tmp_path / "a.pdx").read_bytes() == (tmp_path / "b.pdx").read_bytes()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"exits": {"alpha": 0.01}}, "the labels are numbers, for which there are no"),
        (
            {"task": "regression", "quality": {"measure": "auc"}},
            "measure is 'auc', and the labels are numb",
        ),
        (
            {"task": "regression", "data": {"table": "rows.csv", "rare_below": 9}},
            "on_rare_class is for classes",
        ),
        ({"learner": "logistic"}, "'logistic' is for classes"),
        ({"task": "regression", "learner": "logistic"}, "'logistic' is for classes"),
        ({"quality": {"coverage": 1.0}}, "quality.coverage"),
    ],
)
def test_what_is_for_classes_is_refused(
    tmp_path: Path, more: dict[str, Any], message: str
) -> None:
    table(tmp_path, 100)
    with pytest.raises(BadProject, match=message):
        _ = builder(tmp_path, **more).table
    assert not list(tmp_path.glob("cache/**/*.pdx"))


def test_too_few_items_are_counted(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,label\n1,2.5\n2,3.5\n")
    with pytest.raises(BadProject, match="there are 2 independent items; dividing"):
        builder(tmp_path, task="regression").index()
    (tmp_path / "rows.csv").write_text("a,label\n1,2.5\n2,3.5\n3,1.0\n4,2.0\n")
    index = build(builder(tmp_path, task="regression").project)
    assert len(index.qualities) >= 1


def test_what_is_for_classes_makes_numbers_classes(tmp_path: Path) -> None:
    table(tmp_path, 100)
    for more in ({"quality": {"measure": "macro_f1"}}, {"task": "classes"}):
        with pytest.raises(BadProject, match="has 1 independent item, and"):
            _ = builder(tmp_path, **more).table
    made = builder(tmp_path, quality={"measure": "mae"})
    assert made.table.dataset.numbers is not None


def test_numbers_go_with_greedy_and_are_measured_anew(tmp_path: Path) -> None:
    table(tmp_path, 300)
    made = builder(tmp_path, search={"method": "greedy"})
    first = made.index()
    assert first.best(1, 10.0).quality > 0.5
    assert made.searched.facts["method"] == "greedy"
    second = remeasure(first, made.table.dataset.items[:6], Silence())
    assert first.package is not None
    assert second.package is not None
    assert second.qualities.tolist() == first.qualities.tolist()
    assert second.package.measure == "r2"
    assert second.package.intervals.tolist() == first.package.intervals.tolist()
