"""A project's learner is tuned before its sets are searched."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris

from polydom.indexer import build
from polydom.indexer.building.learner_race import choose_learner
from polydom.indexer.building.project import Project
from polydom.indexer.building.tune_learner import tune_learner
from polydom.indexer.index.built_facts import races_of
from tests.support.builds import few_learners
from tests.support.builds.staged_build import StagedBuild


def project(folder: Path, learner: Any) -> Project:
    """Of the irises, with the seconds to tune."""
    X, y = load_iris(return_X_y=True)
    rows = np.random.default_rng(0).permutation(150)
    lines = [",".join(map(str, [*X[row], "abc"[y[row]]])) for row in rows]
    (folder / "rows.csv").write_text("\n".join(["a,b,c,d,label", *lines]))
    content = {
        "data": {"table": "rows.csv"},
        "learner": learner,
        "search": {"budget_s": 0.5},
        "costs": {"items": 6, "repeats": 1},
        "workers": 1,
    }
    return Project.from_mapping(content, folder=folder)


def test_a_build_has_the_tuned_setting_and_says_how_it_was_found(
    tmp_path: Path,
) -> None:
    named = {"name": "tree", "max_depth": 3, "tune_s": 0.3}
    index = build(project(tmp_path, named), output=tmp_path / "a.pdx")
    assert index.package is not None
    meta = index.package.meta
    assert meta["learner"]["max_depth"] == 3
    assert "tune_s" not in meta["learner"]
    (race,) = races_of(meta)
    assert race.strategy == "successive halving"
    assert race.score >= race.curves["own setting"][0][1]
    for name in ("min_samples_leaf", "ccp_alpha"):
        drawn = race.learner != "own setting"
        assert (name in meta["learner"]) is drawn
    # the times are in the cache, and so is the log with its seconds
    build(project(tmp_path, named), output=tmp_path / "b.pdx")
    assert (tmp_path / "b.pdx").read_bytes() == (tmp_path / "a.pdx").read_bytes()


def test_the_winner_of_a_race_is_tuned_and_one_without_settings_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_learners.use(monkeypatch, "naive bayes", "prior")
    stages = StagedBuild(
        project(tmp_path, {"name": "auto", "tune_s": 0.2}), tmp_path / "cache"
    )
    raced = choose_learner(stages.data, stages.own)
    assert raced.setting == {"name": "naive_bayes"}
    tuned = tune_learner(raced, stages.data, stages.own)
    race, halving = tuned.facts["levels"]
    assert race == raced.facts
    assert halving["score"] >= race["score"]
    assert tuned.setting["name"] == "naive_bayes"
    few_learners.use(monkeypatch, "prior")
    alone = choose_learner(stages.data, stages.own)
    assert tune_learner(alone, stages.data, stages.own) is alone
