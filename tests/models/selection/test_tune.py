"""Tuning: what is drawn, who is trained on what, and when it ends."""

import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer

from polydom.features.errors import BadInput, BadProject
from polydom.features.threads import one_thread
from polydom.models.selection.learners import CLASSIFIERS, LEARNERS, Task, make_learner
from polydom.models.selection.race import Allocation, Race
from polydom.models.selection.settings_space import (
    SPACES,
    Range,
    draw_setting,
    space_of,
)
from polydom.models.selection.splits import split
from polydom.models.selection.tune import ARMS, OWN, Tuned, tune
from polydom.models.selection.validation_scores import SCORES

X, y = load_breast_cancer(return_X_y=True)
FOLDS = split(X[::2], y[::2], validation=2)
AUC = SCORES["auc"]
TUNABLE: list[tuple[str, Task]] = [
    (name, task) for task, known in LEARNERS.items() for name in known if name in SPACES
]


@given(
    low=st.floats(1e-9, 10),
    factor=st.floats(1, 1e6),
    log=st.booleans(),
    whole=st.booleans(),
    seed=st.integers(0, 99),
)
def test_what_is_drawn_is_within_its_range(
    low: float, factor: float, log: bool, whole: bool, seed: int
) -> None:
    high = low * factor
    if whole:
        low, high = math.ceil(low), math.ceil(high)
    value = Range(low, high, log=log, whole=whole).draw(np.random.default_rng(seed))
    assert low <= value <= high
    assert isinstance(value, int) or not whole


def test_rates_are_even_on_a_logarithmic_scale_and_shares_are_even() -> None:
    rng = np.random.default_rng(0)
    rates = [Range(1e-4, 1e4).draw(rng) for _ in range(2000)]
    counts, _ = np.histogram(np.log10(rates), bins=8, range=(-4, 4))
    assert counts.min() > 180
    shares = [Range(0.0, 1.0, log=False).draw(rng) for _ in range(2000)]
    counts, _ = np.histogram(shares, bins=8, range=(0, 1))
    assert counts.min() > 180


@pytest.mark.parametrize(("name", "task"), TUNABLE)
def test_every_learner_takes_what_is_drawn_for_it(name: str, task: Task) -> None:
    space = space_of({"name": name})
    _, drawn = draw_setting({"name": name}, space, np.random.default_rng(0))
    if space.iterations is not None:
        drawn[space.iterations[0]] = 2
    learner = make_learner(drawn, 0, task)
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of so few rows some do not converge
        learner.fit(X[:60], y[:60])
    assert drawn.keys() >= space.ranges.keys()


def test_settings_that_are_given_stay_and_none_left_is_an_error() -> None:
    space = space_of({"name": "lightgbm", "num_leaves": 9, "n_estimators": 50})
    assert "num_leaves" not in space.ranges
    assert "learning_rate" in space.ranges
    assert space.iterations == ("n_estimators", 50)
    own = space_of({"name": "lightgbm:LGBMClassifier"})
    assert own == space_of({"name": "lightgbm"})
    with pytest.raises(BadProject, match=r"gives C, which is all that tune_s would"):
        space_of({"name": "logistic", "C": 1.0})
    for name in ("prior", "sklearn.linear_model:RidgeClassifierCV"):
        with pytest.raises(BadProject, match=f"'{name}' has none to tune"):
            space_of({"name": name})
    assert SPACES.keys() <= CLASSIFIERS.keys() | LEARNERS["regression"].keys()


class Ticks:
    """A clock that moves by a millisecond whenever somebody looks."""

    now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 1e-3
        return self.now_s


def tuned(
    setting: dict[str, object], tune_s: float, past: tuple[Allocation, ...] = ()
) -> Tuned:
    """Tune by a clock of our own: a training takes 2 ms for each fold."""
    terms: Any = {"task": "classes", "seed": 3, "tune_s": tune_s, "now": Ticks()}
    return tune(setting, FOLDS, AUC, **terms, past=past)


def test_tuning_is_halving_and_its_log_repeats_it() -> None:
    found = tuned({"name": "tree", "max_depth": 4}, 0.5)
    first, *others = found.log
    rows = min(len(part.y) for part in FOLDS)
    assert (first.learner, first.amount) == (OWN, rows)
    names = list(dict.fromkeys(line.learner for line in found.log))
    assert len(names) > 2 * ARMS
    bracket = [line for line in others if line.learner in names[:ARMS]]
    amounts = [line.amount for line in bracket]
    # a fifteenth of the rows, a fifth, ... all; half of the arms each time
    part = math.ceil(rows / 15)
    assert [amounts.count(n) for n in (part, 3 * part, 7 * part)] == [ARMS, 8, 4]
    assert amounts.count(rows) in (1, 2)  # the own setting had all rows before
    assert found.setting["max_depth"] == 4
    own = first.score
    assert own is not None
    assert found.score >= own
    again = tuned({"name": "tree", "max_depth": 4}, 0.5, found.log)
    assert again == found
    # fewer seconds end at an earlier training of the same log
    half = tuned({"name": "tree", "max_depth": 4}, found.seconds / 2, found.log)
    assert half.log == found.log[: len(half.log)]
    assert len(half.log) < len(found.log)


def test_one_training_is_made_however_short_the_time_is() -> None:
    found = tuned({"name": "naive_bayes"}, 1e-9)
    assert [line.learner for line in found.log] == [OWN]
    assert found.setting == {"name": "naive_bayes"}


def test_iterations_are_those_with_the_best_score() -> None:
    settings = {"name": "lightgbm", "n_estimators": 40, "num_leaves": 4}
    slow = tuned(settings, 0.1)
    best = max(slow.log, key=lambda line: line.score or 0.0)
    assert slow.setting["n_estimators"] == best.amount <= 40
    assert slow.setting["num_leaves"] == 4
    assert slow.score == best.score
    # a log whose seconds are other than the clock's decides when to end
    hurried = [replace(line, seconds=1.0) for line in slow.log]
    ended = tuned(settings, 3.0, tuple(hurried))
    assert ended.log == tuple(hurried[:3])


def test_progress_is_told_the_seconds_and_errors_of_all_are_one() -> None:
    seen: list[float] = []

    def progress(race: Race, spent_s: float) -> None:
        seen.append(spent_s)

    tune(
        {"name": "ridge"},
        FOLDS,
        SCORES["accuracy"],
        task="classes",
        seed=0,
        tune_s=0.05,
        progress=progress,
        now=Ticks(),
    )
    assert seen == sorted(seen)
    assert seen[-1] >= 0.05
    with pytest.raises(BadInput, match="every setting failed; 'own setting' with"):
        tune(  # probabilities, which a linear SVM has not
            {"name": "linear_svm"},
            FOLDS,
            SCORES["log_loss"],
            task="classes",
            seed=0,
            tune_s=1e-9,
        )
