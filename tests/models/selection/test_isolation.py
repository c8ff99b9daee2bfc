"""Races whose trainings are in processes of their own, with learners hard on them."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from polydom.models.selection.daub import train_all
from polydom.models.selection.race import Race
from polydom.models.selection.select import Running, Selection, select
from tests.support.models import hard_learners as hard
from tests.support.models.hard_learners import (
    Counted,
    Does,
    Draws,
    KeepsALambda,
    StartsAProcess,
)
from tests.support.places import ROOT
from tests.support.waiting import wait_until

RNG = np.random.default_rng(5)
y = np.arange(120) % 2
X = y[:, None] + RNG.normal(size=(120, 3))
PLACES = [(1, 60.0), (2, None)]


def choose(
    learners: dict[str, Any],
    jobs: int,
    limit_s: float | None,
    progress: Callable[[Race], None] | None = None,
    **more: Any,
) -> Selection:
    """Race learners; a race that hangs fails, instead of the whole run."""
    found: list[Any] = []

    def race() -> None:
        try:
            running = Running(jobs=jobs, limit_s=limit_s, progress=progress)
            found.append(select(learners, X, y, running=running, **more))
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=race, daemon=True)
    thread.start()
    thread.join(240)
    assert found, "the race hangs"
    if isinstance(found[0], BaseException):
        raise found[0]
    assert isinstance(found[0], Selection)
    return found[0]


def with_lambda() -> Any:
    return make_pipeline(FunctionTransformer(lambda rows: rows), GaussianNB())


def of_a_local_class() -> Any:
    class Local(GaussianNB):  # type: ignore[misc]
        pass

    return Local()


def loaded_nowhere_else() -> Any:
    """Pickled by a name that only this process has."""
    learner = Does(hard.hang, rows=1000)
    learner.what = type(
        "Here", (), {"__module__": hard.__name__, "__call__": hard.hang}
    )
    learner.what.__qualname__ = "Here"
    hard.Here = learner.what  # type: ignore[attr-defined]
    return learner


UNSENDABLE = [with_lambda, of_a_local_class, loaded_nowhere_else]


@pytest.mark.parametrize("make", UNSENDABLE)
def test_a_learner_that_cannot_be_sent_trains_here(make: Callable[[], Any]) -> None:
    chosen = choose({"odd": make(), "dummy": DummyClassifier()}, 2, None)
    assert chosen.failed == {}
    assert set(chosen.curves) == {"odd", "dummy"}
    assert chosen.model is not None


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_learner_that_cannot_be_sent_costs_only_itself_where_time_is_limited(
    jobs: int,
) -> None:
    learners = {str(place): make() for place, make in enumerate(UNSENDABLE)}
    chosen = choose({**learners, "bayes": GaussianNB()}, jobs, 60.0)
    assert chosen.name == "bayes"
    assert set(chosen.failed) == {"0", "1", "2"}
    assert all(text.startswith("CannotBeSent: ") for text in chosen.failed.values())
    assert "lambda" in chosen.failed["0"]
    assert "Local" in chosen.failed["1"]
    assert "Here" in chosen.failed["2"]


@pytest.mark.parametrize(("jobs", "limit_s"), PLACES)
def test_a_learner_that_ends_its_process_costs_only_itself(
    jobs: int, limit_s: float | None
) -> None:
    learners = {
        "exits": Does(hard.end_by_exit),
        "bayes": GaussianNB(),
        "segfault": Does(hard.end_by_segfault),
        "orphans": Does(hard.exit_and_leave_a_child),
        "awkward": Does(hard.raise_what_cannot_be_sent),
    }
    chosen = choose(learners, jobs, limit_s)
    assert chosen.name == "bayes"
    assert chosen.model.score(X, y) > 0.5
    assert chosen.failed == {
        "exits": "TrainingDied: its process ended with code 3",
        "segfault": "TrainingDied: its process ended with code -11",
        "orphans": "TrainingDied: its process ended with code 4",
        "awkward": "RuntimeError: Awkward: one and two",
    }


@pytest.mark.parametrize(("jobs", "limit_s"), PLACES)
def test_a_worker_killed_while_idle_costs_nobody(
    jobs: int, limit_s: float | None
) -> None:
    def train_and_kill(race: Race) -> str:
        for name in race.arms:
            race.train(name, 84)
            for process in multiprocessing.active_children():
                assert process.pid is not None
                os.kill(process.pid, signal.SIGKILL)
        return race.leader()

    learners = {str(x): GaussianNB(var_smoothing=10.0**-x) for x in range(2)}
    chosen = choose(learners, jobs, limit_s, strategy=train_and_kill)
    assert chosen.failed == {}
    assert chosen.model is not None


def test_processes_draw_other_numbers_each_though_forked_from_one(
    tmp_path: Path,
) -> None:
    learners = {name: Draws(tmp_path / name) for name in ("a", "b", "c")}
    choose(learners, 3, None, strategy=train_all)
    drawn = {(tmp_path / name).read_text() for name in learners}
    assert len(drawn) == 3


@pytest.mark.parametrize(("jobs", "limit_s"), [(1, None), *PLACES])
def test_the_winner_is_not_trained_again(
    jobs: int, limit_s: float | None, tmp_path: Path
) -> None:
    names = ["a", "b", "c"]
    learners = {name: Counted(tmp_path / name) for name in names}
    chosen = choose(learners, jobs, limit_s, strategy=train_all)
    assert chosen.model.predict(X[:2]).shape == (2,)
    assert [(tmp_path / name).read_text() for name in names] == ["84\n"] * 3


def test_a_last_training_that_overruns_does_not_lose_the_race() -> None:
    """With folds the winner is trained on all rows at the end: 120, after 80."""
    slow = {"slow": Does(hard.hang, rows=100)}
    chosen = choose(slow, 1, 3.0, validation=3, strategy=train_all)
    assert chosen.name == "slow"
    assert chosen.model is None
    assert chosen.error == "TrainingDied: stopped after its 3 s"
    assert [line.amount for line in chosen.log] == [80]


@pytest.mark.parametrize(("jobs", "limit_s"), [(1, None), (2, 60.0)])
def test_a_last_training_that_fails_does_not_lose_the_race(
    jobs: int, limit_s: float | None
) -> None:
    awkward = Does(hard.raise_what_cannot_be_sent, rows=100)
    chosen = choose({"awkward": awkward}, jobs, limit_s, validation=3)
    assert chosen.model is None
    assert "one and two" in chosen.error
    assert chosen.score == chosen.log[-1].score


def test_a_model_that_cannot_come_back_is_trained_here_or_told_of() -> None:
    chosen = choose({"keeps": KeepsALambda()}, 2, None)
    assert chosen.model.kept_() is None
    lost = choose({"keeps": KeepsALambda()}, 1, 60.0)
    assert lost.model is None
    assert lost.error.startswith("CannotBeSent: its model: ")


def test_a_training_that_is_stopped_takes_its_processes_along(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    learners = {"starts": StartsAProcess(path), "bayes": GaussianNB()}
    chosen = choose(learners, 1, 3.0)
    assert chosen.failed == {"starts": "TrainingDied: stopped after its 3 s"}
    stat = Path(f"/proc/{path.read_text()}/stat")
    wait_until(lambda: not stat.exists() or stat.read_text().split()[2] == "Z")


RACE = """
import sys
from pathlib import Path
from tests.models.selection.test_isolation import choose
from tests.support.models.hard_learners import StartsAProcess

choose({"starts": StartsAProcess(Path(sys.argv[1]))}, 1, 100.0)
"""


def test_a_race_that_is_killed_leaves_no_process(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    with subprocess.Popen([sys.executable, "-c", RACE, path], cwd=ROOT) as race:
        try:
            wait_until(lambda: path.exists() and path.read_text())
        finally:
            race.kill()
    stat = Path(f"/proc/{path.read_text()}/stat")
    wait_until(lambda: not stat.exists() or stat.read_text().split()[2] == "Z")


def test_an_interrupt_does_not_wait_for_trainings() -> None:
    def interrupt(race: Race) -> None:
        raise KeyboardInterrupt

    learners = {"bayes": GaussianNB(), "hangs": Does(hard.hang)}
    with pytest.raises(KeyboardInterrupt):
        choose(learners, 2, None, progress=interrupt)
    # one may just have been started
    wait_until(lambda: not multiprocessing.active_children())
