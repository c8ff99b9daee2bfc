"""Races between learners before a build's search."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console
from sklearn.datasets import load_breast_cancer

from polydom.indexer.building.cache import Cache
from polydom.indexer.building.learner_race import LearnerChoice, race_learners
from polydom.indexer.building.training.quality import Metric
from polydom.indexer.progress import Silence
from polydom.models.selection.portfolio import Setting
from polydom.models.selection.race import Race
from polydom.server.cli.reports.race_report import show_race

X, y = load_breast_cancer(return_X_y=True)
HASTY: Setting = {"name": "logistic", "max_iter": 1}
ENDLESS: Setting = {"name": "boosting", "n_estimators": 10**8}
BAYES: Setting = {"name": "naive_bayes"}


def choose(
    folder: Path, settings: dict[str, Setting], *, limit_s: float | None = None
) -> tuple[LearnerChoice, list[str]]:
    """The choice among some learners, and who was trained."""
    trained: list[str] = []

    def watch(race: Race) -> None:
        trained.append(race.log[-1].learner)

    choice = race_learners(
        X.astype(np.float32),
        y.astype(np.int64),
        [(np.arange(400), np.arange(400, len(y)))],
        seed=0,
        cache=Cache(folder),
        name="races/one",
        progress=Silence(),
        metric=Metric("accuracy", 2),
        settings=settings,
        watch=watch,
        limit_s=limit_s,
    )
    return choice, trained


def test_a_race_tells_who_did_not_converge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    choice, trained = choose(tmp_path, {"bayes": BAYES, "hasty": HASTY})
    assert trained[:2] == ["bayes", "hasty"]
    (text,) = choice.facts["warnings"]["hasty"]
    assert text.startswith("ConvergenceWarning: ")
    assert "bayes" not in choice.facts["warnings"]
    show_race(choice.facts, Console(width=200))
    assert "hasty warned: ConvergenceWarning: " in capsys.readouterr().out


def test_a_race_loses_only_who_overruns_its_seconds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also when it goes on from its log, which trains nobody again."""
    settings = {"endless": ENDLESS, "bayes": BAYES}
    limit_s = 5  # on a busy machine, a new worker needs some seconds to begin
    choice, trained = choose(tmp_path, settings, limit_s=limit_s)
    assert choice.setting == BAYES
    assert list(dict.fromkeys(trained)) == ["endless", "bayes"]
    assert choice.facts["failed"] == {"endless": "TrainingDied: stopped after its 5 s"}
    assert choose(tmp_path, settings, limit_s=limit_s)[0] == choice
    show_race(choice.facts, Console(width=200))
    assert "endless failed: TrainingDied: stopped" in capsys.readouterr().out


def test_a_race_shows_failures_that_look_like_markup(
    capsys: pytest.CaptureFixture[str],
) -> None:
    facts = {
        "strategy": "all",
        "learner": "bayes",
        "score": 1.0,
        "seconds": 1.0,
        "curves": {"bayes": [[9, 1.0, 1.0]]},
        "failed": {"odd": "KeyError: [/red]"},
    }
    show_race(facts, Console(width=200))
    assert "odd failed: KeyError: [/red]" in capsys.readouterr().out


def test_a_race_is_for_what_is_judged(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    codes = (rng.random(600) < 0.1).astype(np.int64)
    values = (codes[:, None] + rng.normal(size=(600, 3))).astype(np.float32)
    divisions = [(np.arange(400), np.arange(400, 600))]
    settings = {"logistic": {"name": "logistic"}, "lda": {"name": "lda"}}

    def raced(targets: NDArray[Any], metric: Metric, name: str, **more: Any) -> Any:
        own = {"settings": settings, **more}
        return race_learners(
            values,
            targets,
            divisions,
            metric=metric,
            seed=0,
            cache=Cache(tmp_path),
            name=f"races/{name}",
            progress=Silence(),
            **own,
        )

    costs = np.array([[0.0, 1.0], [9.0, 0.0]])
    metric, weights = Metric("cost", 2, costs), np.array([1.0, 9.0])
    careful = raced(codes, metric, "cost", class_weights=weights)
    assert careful.setting["name"] == "logistic"  # lda takes no weights
    plain = raced(codes, metric, "plain")
    assert careful.facts["score"] > plain.facts["score"]
    numbers = values @ [1.0, 2.0, 3.0]
    told = {"ridge": {"name": "ridge"}, "mean": {"name": "mean"}}
    for measure in ("r2", "mae"):
        choice = raced(numbers, Metric(measure, 0), measure, settings=told)
        assert choice.setting["name"] == "ridge"
        assert choice.facts["score"] > 0.9
