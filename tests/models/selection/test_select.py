import json
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, make_friedman1
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import (
    LogisticRegression,
    Ridge,
    SGDClassifier,
    SGDRegressor,
)
from sklearn.metrics import roc_auc_score
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from polydom.features.errors import BadInput
from polydom.models.selection.arms import ExamplesArm, IterationsArm
from polydom.models.selection.daub import daub, train_all
from polydom.models.selection.isolation import isolated
from polydom.models.selection.knockout import knockout
from polydom.models.selection.portfolio import installed, make_portfolio
from polydom.models.selection.race import Allocation, Race, TrainingOutcome
from polydom.models.selection.select import (
    FROM_ONE,
    STRATEGIES,
    Running,
    select,
    select_by_iterations,
)
from polydom.models.selection.splits import nested_order, split
from polydom.models.selection.successive_halving import successive_halving, uniform
from polydom.models.selection.validation_scores import SCORES, Score, find_score
from tests.support.models import arms

X, y = load_breast_cancer(return_X_y=True)  # 569 rows, 30 columns, 2 classes
ACCURACY = SCORES["accuracy"]
LEARNERS = {
    "dummy": DummyClassifier(),
    "bayes": GaussianNB(),
    "tree": DecisionTreeClassifier(max_depth=3),
    "logistic": make_pipeline(StandardScaler(), LogisticRegression()),
}


class Crashes(DummyClassifier):  # type: ignore[misc]
    """Fails on more than 100 rows, as a learner out of memory does."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        if len(X) > 100:
            raise MemoryError("too many rows")
        return super().fit(X, y)


def test_select_finds_the_learner_that_is_best_when_all_are_trained() -> None:
    everything = select(LEARNERS, X, y, strategy=train_all)
    chosen = select(LEARNERS, X, y, strategy=knockout)
    assert everything.name == "logistic"
    assert chosen.name == "logistic"
    assert chosen.score == everything.score
    assert chosen.amount == 399  # 70 % of each class


def test_select_gives_the_chosen_learner_fitted_on_the_training_rows() -> None:
    chosen = select(LEARNERS, X, y, seed=3)
    (part,) = split(X, y, seed=3)
    assert chosen.model.score(part.X_valid, part.y_valid) == chosen.score


@pytest.mark.parametrize("measure", [m for m in SCORES if SCORES[m].labels])
def test_select_takes_every_measure_of_classes(measure: str) -> None:
    chosen = select(LEARNERS, X, y, strategy=train_all, measure=measure)
    assert chosen.name in ("logistic", "bayes")
    assert chosen.score == max(line.score or -9.0 for line in chosen.log)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_select_takes_regressors_by_squared_error_in_any_unit(scale: float) -> None:
    line = X[:, 0] / X[:, 0].max()
    learners = {"slow": SGDRegressor(eta0=1e-6), "fast": SGDRegressor(eta0=1e-1)}
    rows = line[:, None]
    chosen = select(learners, rows, scale * line, measure="squared_error")
    assert chosen.name == "fast"
    assert -1e-2 * scale**2 < chosen.score < 0


@pytest.mark.parametrize(("measure", "scale"), [("r2", 1e-6), ("mae", 1e6)])
def test_select_races_learners_of_numbers(measure: str, scale: float) -> None:
    rows, values = make_friedman1(700, random_state=0)
    settings = {
        name: setting
        for name, setting in installed("regression").items()
        if "," not in name and name not in ("linear svm", "bagging")
    }
    learners = make_portfolio(settings, 0, "regression")
    chosen = select(learners, rows, scale * values, measure=measure)
    assert not chosen.failed
    assert chosen.score > {"r2": 0.87, "mae": 0.65}[measure]
    assert len({line.learner for line in chosen.log}) > 9
    own = SCORES[measure].make_scorer()
    (part,) = split(rows, scale * values, labels=False)
    assert own(chosen.model, part.X_valid, part.y_valid) == chosen.score


@pytest.mark.parametrize("measure", ["r2", "mae"])
def test_learner_worse_than_a_constant_scores_nothing(measure: str) -> None:
    rows, values = make_friedman1(300, random_state=0)
    learners = {
        "far": DummyRegressor(strategy="constant", constant=1e200),
        "median": DummyRegressor(strategy="median"),
        "ridge": Ridge(),
    }
    chosen = select(learners, rows, values, measure=measure, strategy=train_all)
    scores = {line.learner: line.score for line in chosen.log}
    assert scores["far"] == 0.0
    assert not chosen.failed
    assert chosen.name == "ridge"


def test_select_races_by_area_those_without_probabilities_too() -> None:
    learners = {"dummy": DummyClassifier(), "svm": LinearSVC(max_iter=9999)}
    wide = np.log1p(X)
    chosen = select(learners, wide, y, measure="auc", strategy=train_all)
    assert not chosen.failed
    assert chosen.name == "svm"
    (part,) = split(wide, y)
    margin = chosen.model.decision_function(part.X_valid)
    assert chosen.score == pytest.approx(roc_auc_score(part.y_valid, margin))


def test_select_takes_a_score_of_ones_own() -> None:
    """Here what confusions cost, which no name can say."""
    costs = np.array([[0.0, 1.0], [30.0, 0.0]])

    def saved(model: Any, X: Any, y: Any) -> float:
        return float(1 - costs[y, model.predict(X)].mean() / costs.max())

    learners = {
        "zero": DummyClassifier(strategy="constant", constant=0),
        "one": DummyClassifier(strategy="constant", constant=1),
    }
    assert select(learners, X, y, measure=Score(saved, 1.0)).name == "one"
    costs = costs.T
    assert select(learners, X, y, measure=Score(saved, 1.0)).name == "zero"


def test_select_gives_every_learner_at_least_a_row_of_each_class() -> None:
    rows = np.random.default_rng(0).normal(size=(600, 3))
    classes = np.arange(600) % 60
    rows[:, 0] += classes
    learners = {"logistic": LogisticRegression(), "bayes": GaussianNB()}
    strategy = partial(daub, granularity=9)
    chosen = select(learners, rows, classes, strategy=strategy)
    assert chosen.log[0].amount == 60
    assert not chosen.failed


def test_select_validates_on_folds_and_then_trains_on_every_row() -> None:
    tree = {"tree": DecisionTreeClassifier()}
    chosen = select(tree, X, y, validation=3, strategy="all")
    assert chosen.amount == 379  # the smallest of the three training parts
    assert chosen.model.score(X, y) == 1.0


def test_select_validates_on_given_rows() -> None:
    chosen = select(LEARNERS, X[:300], y[:300], validation=(X[300:], y[300:]))
    assert chosen.amount == 300


def test_select_repeats_itself_for_a_seed() -> None:
    strategy = partial(daub, granularity=50)
    first, second = (
        select(LEARNERS, X, y, strategy=strategy, seed=5) for _ in range(2)
    )
    assert [(line.learner, line.amount, line.score) for line in first.log] == [
        (line.learner, line.amount, line.score) for line in second.log
    ]


@pytest.mark.parametrize("stop_after", [1, 3])
def test_select_continues_an_interrupted_race_from_its_log(stop_after: int) -> None:
    class Interrupted(Exception):
        pass

    stored: list[str] = []

    def stop(race: Race) -> None:
        stored.append(json.dumps(race.log[-1].to_dict()))
        if len(race.log) == stop_after:
            raise Interrupted

    with pytest.raises(Interrupted):
        select(LEARNERS, X, y, strategy=knockout, running=Running(progress=stop))
    before = [json.loads(line) for line in stored]
    continued = select(LEARNERS, X, y, strategy=knockout, running=Running(log=before))
    assert [line.to_dict() for line in continued.log[:stop_after]] == before
    assert continued.name == "logistic"

    stored_log = [line.to_dict() for line in continued.log]
    again = select(LEARNERS, X, y, strategy=knockout, running=Running(log=stored_log))
    assert again.log == continued.log  # to the second: nothing was trained again
    assert again.model.score(X, y) == continued.model.score(X, y)


def test_select_reports_progress() -> None:
    seen: list[str] = []

    def watch(race: Race) -> None:
        seen.append(race.log[-1].learner)

    select(LEARNERS, X, y, running=Running(progress=watch))
    assert seen == list(LEARNERS)


def test_select_logs_a_crash_and_loses_only_that_learner() -> None:
    chosen = select(
        {"crashes": Crashes(), "bayes": GaussianNB()}, X, y, strategy=train_all
    )
    assert chosen.name == "bayes"
    assert chosen.failed == {"crashes": "MemoryError: too many rows"}


def test_select_logs_that_a_learner_did_not_converge() -> None:
    learner = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1))
    chosen = select({"hasty": learner}, X, y)
    assert chosen.log[-1].warnings[0].startswith("ConvergenceWarning: lbfgs failed")


def test_select_allocates_iterations_where_asked() -> None:
    learners = {
        "sgd": SGDClassifier(),
        "forest": RandomForestClassifier(),
        "bayes": GaussianNB(),
    }
    chosen = select_by_iterations(learners, X, y, 20, strategy=train_all)
    assert chosen.name == "forest"
    assert chosen.amount == 20
    assert len(chosen.model.estimators_) == 20


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learners": {}}, "no learners"),
        ({"y": np.zeros(len(y))}, "1 class"),
        ({"y": y[:-1]}, "569 rows and y has 568"),
        ({"validation": 1.0}, "share in"),
        ({"validation": 1}, "folds"),
        ({"validation": (X[:3], np.array([0, 1, 2]))}, "class .*2.*no training row"),
        ({"validation": (X[:3, :2], y[:3])}, "as many columns"),
        ({"validation": (X[:3], y[:2])}, "have 2 targets"),
        ({"measure": "acuracy"}, "nearest is 'accuracy'"),
        ({"learners": {"only": Crashes()}}, "every learner failed; 'only'"),
        ({"running": Running(log=[{"learner": "bayes"}])}, "not a line"),
        (
            {"running": Running(log=[Allocation("svm", 9, 9, 0.5).to_dict()])},
            "names 'svm'",
        ),
        ({"strategy": partial(daub, granularity=300)}, "at most the 399"),
        ({"strategy": partial(daub, granularity=500)}, "is 500 .* at most the 399"),
        ({"strategy": "doubling"}, "'doubling' begins with a single pull"),
        ({"strategy": partial(uniform, budget=3)}, "3 is below one pull per arm; 4 "),
        ({"strategy": partial(successive_halving, budget=7)}, "7 is below .*; 8 are"),
    ],
)
def test_select_refuses_what_it_cannot_use(
    change: dict[str, Any], message: str
) -> None:
    arguments: dict[str, Any] = {"learners": LEARNERS, "X": X, "y": y} | change
    with pytest.raises(BadInput, match=message):
        select(**arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, "DummyClassifier cannot"),
        ({"iterations": 0}, "at least 1"),
        ({"strategy": "obms"}, "'obms' divides examples"),
        ({"validation": 3}, "5 iterations on 3 division"),
        ({"learners": {}}, "no learners"),
    ],
)
def test_select_by_iterations_refuses_what_it_cannot_use(
    change: dict[str, Any], message: str
) -> None:
    arguments: dict[str, Any] = {"learners": LEARNERS, "X": X, "y": y, "iterations": 5}
    with pytest.raises(BadInput, match=message):
        select_by_iterations(**arguments | change)


def test_running_refuses_no_workers_and_no_time() -> None:
    with pytest.raises(BadInput, match="jobs is 0"):
        Running(jobs=0)
    with pytest.raises(BadInput, match=r"limit_s 0\.0"):
        Running(limit_s=0.0)


@given(
    counts=st.lists(st.integers(1, 12), min_size=2, max_size=5),
    seed=st.integers(0, 1000),
)
def test_nested_order_keeps_the_shares_of_the_classes_in_every_prefix(
    counts: list[int], seed: int
) -> None:
    labels = np.repeat(np.arange(len(counts)), counts)
    order = nested_order(labels, np.random.default_rng(seed))
    assert sorted(order) == list(range(len(labels)))
    assert set(labels[order[: len(counts)]]) == set(range(len(counts)))
    for n in range(1, len(labels) + 1):
        held = np.bincount(labels[order[:n]], minlength=len(counts))
        share = np.array(counts) * n / len(labels)
        assert np.abs(held - share).max() < len(counts)


@given(
    counts=st.lists(st.integers(4, 20), min_size=2, max_size=4),
    validation=st.sampled_from([0.25, 0.3, 2, 3]),
    seed=st.integers(0, 100),
)
def test_split_uses_every_row_once_and_keeps_the_shares(
    counts: list[int], validation: float | int, seed: int
) -> None:
    labels = np.repeat(np.arange(len(counts)), counts)
    rows = np.arange(len(labels))[:, None]
    share = validation if validation < 1 else 1 / validation
    parts = split(rows, labels, validation=validation, seed=seed)
    for part in parts:
        used = np.concatenate([part.X, part.X_valid])[:, 0]
        assert sorted(used) == list(range(len(labels)))
        held = np.bincount(part.y_valid, minlength=len(counts))
        assert np.abs(held - share * np.array(counts)).max() <= 1
    if len(parts) > 1:
        together = np.concatenate([part.X_valid for part in parts])[:, 0]
        assert sorted(together) == list(range(len(labels)))


@pytest.mark.parametrize(
    "learner",
    [GaussianNB(), MultinomialNB(), LEARNERS["logistic"]],
    ids=["gaussian bayes", "multinomial bayes", "scaled logistic"],
)
def test_examples_learn_the_same_warm_as_cold(learner: Any) -> None:
    parts = split(X, y)
    warm = ExamplesArm(learner, parts, ACCURACY)
    for amount in (50, 120, 399):
        warmed = warm(amount)
    (part,), score = parts, ACCURACY.make_scorer()
    cold = clone(learner).fit(part.X[:399], part.y[:399])
    assert warmed.score == score(cold, part.X_valid, part.y_valid)
    assert warmed.train_score == score(cold, part.X[:399], part.y[:399])
    gap = warm.model(399).predict_proba(X) - cold.predict_proba(X)
    assert np.abs(gap).max() < 1e-2


def test_examples_validate_small_trainings_on_few_rows_and_full_ones_on_all() -> None:
    (part,) = split(X, y)
    asked: list[int] = []

    class Asked(DummyClassifier):  # type: ignore[misc]
        def predict(self, X: Any) -> Any:
            asked.append(len(X))
            return super().predict(X)

    learner = Asked()
    arm = ExamplesArm(learner, [part], ACCURACY, scored=0, least_valid=40)
    for amount in (5, 15, 35, 398, 399):
        arm(amount)
    assert asked == [40, 60, 140, 170, 170]
    always = ExamplesArm(learner, [part], ACCURACY, scored=0)
    always(5)
    assert asked[-1] == len(part.y_valid) == 170


def test_examples_count_the_clock_for_training_and_for_scoring() -> None:
    ticks = iter([0.0, 2.0, 3.0])
    arm = ExamplesArm(GaussianNB(), split(X, y), ACCURACY, now=lambda: next(ticks))
    outcome = arm(100)
    assert (outcome.fit_s, outcome.score_s) == (2.0, 1.0)


def test_iterations_carry_on_as_if_never_interrupted() -> None:
    (part,) = split(X, y)
    learner = SGDClassifier()
    in_steps = IterationsArm(learner, part, ACCURACY, batch=32)
    for amount in (1, 5, 30):
        stepped = in_steps(amount)
    at_once = IterationsArm(learner, part, ACCURACY, batch=32)(30)
    assert stepped.score == at_once.score


def numbers(score: float) -> Callable[[int], TrainingOutcome]:
    return lambda amount: TrainingOutcome(score + amount / 1000, fit_s=1.0)


def test_race_asks_no_arm_twice_for_the_same() -> None:
    race = Race({"a": numbers(0.5)})
    first = race.train("a", 10)
    assert race.train("a", 10) is first
    assert len(race.log) == 1


def test_race_charges_only_the_difference_where_arms_carry_on() -> None:
    race = Race({"a": numbers(0.5)}, carries_on=True)
    race.train("a", 10)
    assert race.train("a", 15).spent == 5
    assert race.train("a", 3).amount == 15  # it cannot go back
    assert race.spent == 15


def test_race_cuts_an_amount_to_the_limit_and_refuses_none() -> None:
    race = Race({"a": numbers(0.5)}, limit=20)
    assert race.train("a", 1000).amount == 20
    with pytest.raises(BadInput, match="at least 1"):
        race.train("a", 0)


def test_race_trains_side_by_side_and_logs_in_the_order_asked() -> None:
    race = Race({"a": numbers(0.1), "b": numbers(0.2), "c": numbers(0.3)}, jobs=3)
    race.train_all([(name, n) for name in "cab" for n in (1, 2)])
    asked = [(line.learner, line.amount) for line in race.log]
    assert asked == [(name, n) for name in "cab" for n in (1, 2)]


def test_race_gives_a_failed_learner_no_second_chance() -> None:
    calls = []

    def fails(amount: int) -> TrainingOutcome:
        calls.append(amount)
        raise ValueError("singular matrix")

    race = Race({"a": fails, "b": numbers(0.5)})
    race.train_all([("a", 1), ("b", 1), ("a", 2)])
    assert calls == [1]
    assert race.active == ["b"]
    assert race.train("a", 9).error == "ValueError: singular matrix"


def test_isolated_arms_survive_crashes_and_overruns_of_others() -> None:
    learners = {
        "good": arms.answer,
        "hangs": arms.hang,
        "dies": arms.die,
        "refuses": arms.refuse,
    }
    with isolated(learners, jobs=2, limit_s=2.0) as placed:
        race = Race(placed, jobs=2)
        race.train_all([(name, 5) for name in learners])
        assert race.active == ["good"]
        assert race.failed["hangs"].error == "TrainingDied: stopped after its 2 s"
        assert "ended with code -9" in race.failed["dies"].error
        assert race.failed["refuses"].error == "ValueError: singular matrix"
        assert race.train("good", 7).score == 0.7


def test_select_in_processes_chooses_what_it_chooses_here() -> None:
    here = select(LEARNERS, X, y, validation=2)
    there = select(LEARNERS, X, y, validation=2, running=Running(jobs=2, limit_s=60.0))
    assert [(line.learner, line.amount, line.score) for line in here.log] == [
        (line.learner, line.amount, line.score) for line in there.log
    ]
    assert there.model.score(X, y) == here.model.score(X, y)


def test_find_measure_signs_scores_so_that_larger_is_better() -> None:
    rows: NDArray[np.float64] = X[:100]
    good = KNeighborsClassifier(1).fit(rows, y[:100])
    bad = DummyClassifier().fit(rows, y[:100])
    for name in ("accuracy", "log_loss", "auc", "macro_f1"):
        score = find_score(name).make_scorer()
        assert score(good, rows, y[:100]) > score(bad, rows, y[:100])


def test_select_takes_a_strategy_by_name_and_refuses_an_unknown_one() -> None:
    X, y = load_iris(return_X_y=True)
    learners = {"bayes": GaussianNB()}
    assert select(learners, X, y, strategy="all").name == "bayes"
    with pytest.raises(BadInput, match="no strategy 'guess'; known: knockout, "):
        select(learners, X, y, strategy="guess")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_select_runs_every_strategy_by_its_name(strategy: str) -> None:
    bold = GradientBoostingClassifier(n_estimators=20, max_features="sqrt")
    still = clone(bold).set_params(learning_rate=1e-9)  # answers the class prior
    learners = {"still": still, "bold": bold}
    if strategy in FROM_ONE:
        chosen = select_by_iterations(learners, X, y, 20, strategy=strategy)
    else:
        learners["still"] = DummyClassifier()
        chosen = select(learners, X, y, strategy=strategy, scored=None)
    assert chosen.name == "bold"
    assert set(STRATEGIES) > set(FROM_ONE)


def test_select_gives_no_more_than_the_budget() -> None:
    chosen = select(LEARNERS, X, y, strategy=partial(successive_halving, budget=640))
    assert sum(line.spent for line in chosen.log) <= 2 * 640  # each starts anew
    assert [line.amount for line in chosen.log[:4]] == [80] * 4
