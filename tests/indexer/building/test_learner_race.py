"""Races between learners before a build's search."""

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from sklearn.datasets import load_breast_cancer

from polydom.indexer.building.cache import Cache
from polydom.indexer.building.learner_race import LearnerChoice, choose_learner
from polydom.indexer.commands.report import show_race
from polydom.indexer.progress import Silence
from polydom.models.selection.portfolio import Setting
from polydom.models.selection.race import Race

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

    choice = choose_learner(
        X.astype(np.float32),
        y.astype(np.int64),
        (np.arange(400), np.arange(400, len(y))),
        seed=0,
        cache=Cache(folder),
        name="races/one",
        progress=Silence(),
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


@pytest.mark.jit
def test_a_race_loses_only_who_overruns_its_seconds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also when it goes on from its log, which trains nobody again."""
    settings = {"endless": ENDLESS, "bayes": BAYES}
    choice, trained = choose(tmp_path, settings, limit_s=15)
    assert choice.setting == BAYES
    assert list(dict.fromkeys(trained)) == ["endless", "bayes"]
    assert choice.facts["failed"] == {"endless": "TrainingDied: stopped after its 15 s"}
    assert choose(tmp_path, settings, limit_s=15)[0] == choice
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
        "full_s": 1.0,
        "curves": {"bayes": [[9, 1.0, 1.0]]},
        "failed": {"odd": "KeyError: [/red]"},
    }
    show_race(facts, Console(width=200))
    assert "odd failed: KeyError: [/red]" in capsys.readouterr().out
