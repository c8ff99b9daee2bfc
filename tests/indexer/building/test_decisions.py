"""Indexes whose answers are cut from calibrated scores, or put back on the prior."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polydom.features.errors import BadProject
from polydom.indexer import Index
from polydom.indexer.building.project import Project
from polydom.models.scoring.classifier import Classifier
from polydom.models.scoring.prior import Prior
from tests.support.builds.staged_build import StagedBuild

ROWS = 1200


def table(folder: Path, share: float = 0.12, told: float = 1.5) -> None:
    """Two classes, of which the first by name is rare; two columns tell of it."""
    rng = np.random.default_rng(5)
    rare = rng.random(ROWS) < share
    columns = [told * rare + rng.normal(size=ROWS) for _ in range(2)]
    names = np.where(rare, "fraud", "good")
    lines = [f"{a:.4f},{b:.4f},{c}" for a, b, c in zip(*columns, names, strict=True)]
    (folder / "rows.csv").write_text("\n".join(["a,b,label", *lines]) + "\n")


def builder(
    folder: Path, quality: dict[str, Any], learner: str = "logistic", **search: Any
) -> StagedBuild:
    if not (folder / "rows.csv").exists():
        table(folder)
    content = {
        "data": {"table": "rows.csv"},
        "learner": {"name": learner},
        "quality": quality,
        "search": {"budget_s": 2.0, **(search or {"held_out": 0.25})},
        "exits": "off",
        "workers": 1,
    }
    made = Project.from_mapping(content, folder=folder)
    return StagedBuild(made, folder / "cache")


@pytest.mark.parametrize(
    ("quality", "learner", "search"),
    [
        ({"measure": "precision_at", "at": {"recall": 0.8}}, "logistic", {"folds": 3}),
        ({"measure": "f_beta", "beta": 2.0, "positive": "fraud"}, "linear_svm", {}),
        ({"measure": "cost", "costs": {"fraud": {"good": 9}}}, "naive_bayes", {}),
    ],
)
def test_answers_are_cut_where_held_out_items_say(
    tmp_path: Path, quality: dict[str, Any], learner: str, search: Any
) -> None:
    made = builder(tmp_path, quality, learner, **search)
    index = made.index()
    package = index.package
    assert package is not None
    assert package.positive == "fraud"
    known = [one for one in package.meta["found"] if one]
    assert len(known) == len(package.models)
    for one in known:
        assert one["recall"]["low"] < one["recall"]["share"] <= one["recall"]["high"]
    rows = np.arange(ROWS)
    values, own = made.table.values[rows], made.table.dataset.codes[rows] == 0
    for mask, model in zip(package.masks.tolist(), package.models, strict=True):
        chosen = model.predict(values) == 0
        if mask == 0:
            assert isinstance(model, Prior)
            continue
        assert isinstance(model, Classifier)
        assert model.head.threshold is not None
        scores = model.predict_scores(values)
        assert ((scores > 0) & (scores < 1)).all()
        np.testing.assert_array_equal(chosen, scores[:, 1] < model.head.threshold)
        assert 0.7 < (chosen & own).sum() / own.sum() < 1
    index.save(tmp_path / "a.pdx")
    again = Index.load(tmp_path / "a.pdx").package
    assert again is not None
    for one, two in zip(package.models, again.models, strict=True):
        np.testing.assert_array_equal(one.predict(values), two.predict(values))


def test_a_goal_that_nothing_proves_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    quality = {"measure": "recall_at", "at": {"precision": 0.999}}
    with caplog.at_level(logging.WARNING, "polydom"):
        package = builder(tmp_path, quality).index().package
    assert "do not show a precision of 0.999 for 1 of" in caplog.text
    assert package is not None
    assert [model.choose(np.full(2, 9, np.float32)) for model in package.models] == [1]


@pytest.mark.parametrize(
    ("share", "measure", "expected", "said"),
    [
        (0.05, None, "average_precision", "has the accuracy 9"),
        (0.05, "accuracy", "accuracy", "accuracy hardly counts them"),
        (0.05, "auc", "auc", None),
        (0.12, None, "accuracy", None),
    ],
)
def test_a_rare_class_changes_the_default_measure_and_is_told(
    tmp_path: Path, share: float, measure: str | None, expected: str, said: str | None
) -> None:
    table(tmp_path, share)
    package = builder(tmp_path, {"measure": measure} if measure else {}).index().package
    assert package is not None
    assert package.measure == expected
    told = [line for line in package.meta["warnings"] if "'fraud'" in line]
    assert bool(told) == (said is not None)
    if said is not None:
        assert said in told[0]
    assert not any("ONLY THE PRIOR" in line for line in package.meta["warnings"])


def test_an_index_that_holds_only_the_prior_says_so_in_capital_letters(
    tmp_path: Path,
) -> None:
    table(tmp_path, 0.03, told=0.0)
    package = builder(tmp_path, {"measure": "accuracy"}).index().package
    assert package is not None
    assert len(package.models) == 1
    assert "THIS INDEX HOLDS ONLY THE PRIOR" in package.meta["warnings"][0]


def test_scores_of_weighted_classes_are_of_the_shares_in_the_data(
    tmp_path: Path,
) -> None:
    index = builder(tmp_path, {"measure": "balanced_accuracy"}).index()
    package = index.package
    assert package is not None
    values = StagedBuild(
        Project.from_mapping({"data": {"table": "rows.csv"}}, folder=tmp_path),
        tmp_path / "other",
    ).table.values
    rare, weighed = 0.12, 0
    for model in package.models:
        scores = model.predict_scores(values[:ROWS])
        assert scores[:, 0].mean() == pytest.approx(rare, abs=0.03)
        weighed += int((model.predict(values[:ROWS]) != scores.argmax(axis=1)).sum())
    assert weighed > 50  # decisions are those of the balanced model
    assert package.meta["calibration"][-1]["form"] in (
        "prior",
        "temperature",
        "offsets",
    )


def test_sets_compare_by_log_loss_as_it_is_after_calibration(tmp_path: Path) -> None:
    """Naive Bayes is far too sure of the same number six times; calibrated it wins."""
    draw = np.random.default_rng(3)
    codes = draw.random(ROWS) < 0.5
    strong, weak = (told * codes + draw.normal(size=ROWS) for told in (1.6, 1.2))
    names = ["weak", *(f"s{k}" for k in range(6)), "label"]
    rows = zip(codes, weak, strong, strict=True)
    lines = [f"{w:.4f},{','.join([f'{s:.4f}'] * 6)},{c}" for c, w, s in rows]
    (tmp_path / "rows.csv").write_text("\n".join([",".join(names), *lines]) + "\n")
    groups = [
        {"name": "one", "columns": names[:1]},
        {"name": "six", "columns": names[1:-1]},
    ]
    content = {
        "data": {"table": "rows.csv"},
        "features": {"columns": groups},
        "learner": {"name": "naive_bayes"},
        "quality": {"measure": "log_loss"},
        "search": {"folds": 3},
        "workers": 1,
    }
    made = Project.from_mapping(content, folder=tmp_path)
    index = StagedBuild(made, tmp_path / "cache").index()
    assert index.package is not None
    told = dict(zip(index.package.masks.tolist(), index.qualities, strict=True))
    facts = dict(
        zip(
            index.package.masks.tolist(), index.package.meta["calibration"], strict=True
        )
    )
    assert told[2] > 0.57
    assert np.exp(-facts[2]["before"]["log_loss"]) < 0.5 < told[2]  # worse than a coin
    assert np.exp(-facts[2]["after"]["log_loss"]) == pytest.approx(told[2], abs=0.02)


@pytest.mark.parametrize(
    ("quality", "said"),
    [
        ({"measure": "precision_at"}, r"needs at = \{ recall"),
        ({"measure": "recall_at", "at": {"recall": 0.8}}, r"needs at = \{ precision"),
        ({"measure": "precision_at", "at": {"recall": 1.0}}, "recall is 1; it must be"),
        (
            {"measure": "precision_at", "at": {"recall": 0.5, "f": 0.1}},
            "unknown key 'f'",
        ),
        (
            {"measure": "precision_at", "at": {"recall": 0.5, "confidence": 1.0}},
            "confidence is 1",
        ),
        ({"measure": "auc", "at": {"recall": 0.5}}, "at is for measure"),
        ({"measure": "auc", "positive": "fraud"}, "positive is for"),
        ({"measure": "auc", "beta": 2.0}, "beta is for measure = 'f_beta'"),
        ({"measure": "f_beta", "beta": 0.0}, "beta"),
    ],
)
def test_a_goal_that_cannot_be_is_refused(quality: dict[str, Any], said: str) -> None:
    with pytest.raises(BadProject, match=said):
        Project.from_mapping({"data": {"table": "a.csv"}, "quality": quality})
