"""Base scores to fit on: blocks of light terms, parts of rows, and what is drawn."""

import itertools
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import make_classification
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polydom.features.errors import BadInput, BadRow
from polydom.models import (
    Ensemble,
    MarginSchedule,
    Schedule,
    compile,
    fit_margin_schedule,
    fit_schedule,
)
from polydom.models.early_exit import fitting_rows
from polydom.models.early_exit.fitting_rows import (
    Blocks,
    FitScores,
    make_blocks,
    shuffle_scores,
    swap_columns,
)
from polydom.models.qwyc.fixed_sequence import ClassTests, FreshRows, calibrate
from tests.support.first_use import AtFirstUse
from tests.support.models.agreement import bundled

TERMS = 300


def linear(classes: int) -> tuple[Ensemble, Any]:
    X, y = make_classification(
        900, TERMS, n_informative=12, n_classes=classes, random_state=0
    )
    fitted = make_pipeline(StandardScaler(), LogisticRegression(C=0.01)).fit(X, y)
    made = compile(fitted)
    assert isinstance(made, Ensemble)
    return made, X.astype(np.float32)


LINEAR = AtFirstUse((2, 3), linear)


@given(st.integers(1, 40), st.integers(1, 9), st.integers(0, 99), st.booleans())
def test_a_schedule_of_blocks_is_one_of_terms_that_stops_at_their_ends(
    terms: int, blocks: int, seed: int, more: bool
) -> None:
    draw = np.random.default_rng(seed)
    count = min(blocks, terms)
    cuts = np.sort(draw.choice(np.arange(1, terms), count - 1, replace=False))
    sizes = np.diff([0, *cuts.tolist(), terms])
    made = Blocks(draw.permutation(terms), sizes)
    # Whole numbers, of which every order of adding gives the same sums.
    scores = draw.integers(-3, 4, (12, terms, *([3] if more else []))).astype(float)
    sums = made.sums(scores)
    for b, (end, size) in enumerate(zip(np.cumsum(sizes), sizes, strict=True)):
        own = made.order[end - size : end]
        np.testing.assert_array_equal(sums[:, b], scores[:, own].sum(axis=1))
    order = draw.permutation(count)
    schedule: Any
    if more:
        margin = draw.choice([1.0, 4.0, np.inf], count)
        schedule = MarginSchedule(order, margin, draw.choice([-2.0, 0.0, 3.0], 3))
    else:
        ends = np.sort(draw.choice([-np.inf, -2.5, 2.5, np.inf], (2, count)), axis=0)
        schedule = Schedule(order, ends[0], ends[1], 0.5)
    spread = made.spread_out(schedule)
    answers, used = schedule.evaluate(sums)
    found, terms_used = spread.evaluate(scores)
    np.testing.assert_array_equal(found, answers)
    along = np.cumsum(sizes[order])
    np.testing.assert_array_equal(terms_used, along[used - 1])
    assert spread.promise is schedule.promise


def test_terms_that_move_sums_most_are_in_the_first_blocks() -> None:
    spread = np.random.default_rng(0).random(10_000)
    made = make_blocks(spread)
    assert len(made.sizes) == fitting_rows.MOST_BLOCKS
    assert np.ptp(made.sizes) <= 1
    assert sorted(made.order.tolist()) == list(range(10_000))
    parts = np.split(made.order, made.starts[1:])
    for part, after in itertools.pairwise(parts):
        assert spread[part].min() >= spread[after].max()
        assert (np.diff(part) > 0).all()
    assert [len(make_blocks(np.ones(n)).sizes) for n in (1, 2, 16, 17)] == [1, 2, 4, 5]


@pytest.mark.parametrize("classes", [2, 3])
def test_linear_terms_are_looked_at_in_blocks(classes: int) -> None:
    ensemble, X = LINEAR[classes]
    exits = ensemble.fit_early_exit(X, alpha=0.01)
    schedule = exits.schedule
    limits: Any = getattr(schedule, "upper", getattr(schedule, "margin", None))
    assert 0 < np.isfinite(limits).sum() < 18  # the root of how many terms there are
    codes, used = exits.choices(X)
    changed = np.mean(codes != ensemble.classifier.head.choose(raw(ensemble, X)))
    assert changed <= 0.01
    assert used.mean() < 0.9 * TERMS
    assert [exits.answer(row).code for row in X[:50]] == codes[:50].tolist()


def raw(ensemble: Ensemble, X: Any) -> Any:
    return ensemble.classifier.scorer.raw(X)


@pytest.mark.parametrize("classes", [2, 3])
def test_an_order_or_costs_of_terms_are_those_of_each(classes: int) -> None:
    ensemble, X = LINEAR[classes]
    X = X[:300]
    scores, own = ensemble.base_scores(X), ensemble.predict(X)
    order = np.random.default_rng(0).permutation(TERMS)
    options: dict[str, Any] = {"order": order, "costs": np.arange(1.0, TERMS + 1)}
    long: Schedule | MarginSchedule
    if classes == 2:
        decided = {"decisions": own == 1}
        long = fit_schedule(scores, ensemble.threshold, 0.02, **options, **decided)
    else:
        options["bias"], options["decisions"] = ensemble.bias, own
        long = fit_margin_schedule(scores, 0.02, **options)
        del options["bias"], options["decisions"]
    short = ensemble.fit_early_exit(X, alpha=0.02, **options).schedule
    for part, other in zip(short.__reduce__()[1], long.__reduce__()[1], strict=True):
        np.testing.assert_array_equal(part, other)
    dear = ensemble.fit_early_exit(X[:200], alpha=0.02, feature_costs=np.ones(TERMS))
    assert dear.schedule.order[0] != short.order[0] or classes == 3


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("light", [True, False])
def test_parts_of_rows_give_what_all_at_once_do(
    classes: int, light: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = bundled("wine")
    y = y if classes > 2 else (y > 0).astype(int)
    learner = GradientBoostingClassifier(n_estimators=9, random_state=0)
    ensemble: Any = compile(learner.fit(X, y))
    if light:
        ensemble, X = LINEAR[classes]
        X = X[:150]
    own = ensemble.fit_early_exit, {"alpha": 0.1, "confidence": 0.9, "calibration": X}
    whole = own[0](X, **own[1]).schedule
    monkeypatch.setattr(fitting_rows, "PART_BYTES", 50_000)
    parts = own[0](X, **own[1]).schedule
    assert parts.promise == whole.promise
    for part, other in zip(parts.__reduce__()[1], whole.__reduce__()[1], strict=True):
        if isinstance(part, np.ndarray):
            np.testing.assert_allclose(part, other, rtol=1e-12)


def test_too_many_rows_are_drawn_from_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    source = FitScores(lambda X: np.repeat(X, 5, axis=1), 40)
    X = np.arange(1000.0)[:, None]
    assert source.draw(X, 0) is X
    monkeypatch.setattr(fitting_rows, "MOST_BYTES", 100 * 40 + 39)
    drawn = source.draw(X, 0)
    assert len(drawn) == 100
    assert (np.diff(drawn[:, 0]) > 0).all()
    assert 400 < drawn.mean() < 600
    np.testing.assert_array_equal(source.draw(X, 0), drawn)
    assert (source.draw(X, 1) != drawn).any()
    assert source.of(drawn).nbytes <= fitting_rows.MOST_BYTES
    assert source.of(X[:0]).shape == (0, 5)


def test_memory_of_fitting_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = make_classification(12_000, 8, random_state=0)
    X = X.astype(np.float32)
    forest = RandomForestClassifier(100, max_depth=2, random_state=0)
    ensemble = compile(forest.fit(X[:500], y[:500]))
    assert isinstance(ensemble, Ensemble)
    monkeypatch.setattr(fitting_rows, "MOST_BYTES", 2**20)
    monkeypatch.setattr(fitting_rows, "PART_BYTES", 2**18)
    tracemalloc.start()
    exits = ensemble.fit_early_exit(
        X[:6000], alpha=0.05, confidence=0.9, calibration=X[6000:]
    )
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6 * 2**20  # all base scores would take 9.6 MB
    assert exits.schedule.promise is not None
    assert sum(exits.schedule.promise.rows) == 6000
    assert exits.choices(X[6000:])[1].mean() < 60


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.integers(1, 50))
def test_rows_in_parts_choose_the_rung_that_they_choose_at_once(
    limits: list[float], step: int
) -> None:
    draw = np.random.default_rng(step)
    # Of two base models the first stops what is above a limit, and should not.
    ladder = [
        Schedule(np.arange(2), np.full(2, -np.inf), np.array([limit, np.inf]), 2.0)
        for limit in limits
    ]
    scores = np.column_stack([draw.random(200), np.zeros(200)])
    no = np.zeros(200, np.bool_)
    tests = ClassTests.of(no, np.full(2, 0.3), 0.9)
    assert tests.lacking.tolist() == [False, True]
    whole = calibrate(ladder, FreshRows.of(no, scores, no), tests)
    fresh = FreshRows(
        no,
        lambda: ((scores[i : i + step], no[i : i + step]) for i in range(0, 200, step)),
    )
    assert len(fresh) == 200
    parts = calibrate(ladder, fresh, tests)
    assert parts.promise == whole.promise
    np.testing.assert_array_equal(parts.upper, whole.upper)


def test_a_gap_among_the_rows_is_named() -> None:
    ensemble, X = LINEAR[2]
    X = X[:150]
    rows = X.copy()
    rows[3, 7] = np.nan
    with pytest.raises(BadRow, match="row 3 has nan in column 7"):
        ensemble.fit_early_exit(rows, alpha=0.1)
    with pytest.raises(BadRow, match="row 3 has nan in column 7"):
        ensemble.fit_early_exit(X, alpha=0.1, confidence=0.9, calibration=rows)


@pytest.mark.parametrize("shape", [(5, 4), (5, 4, 3), (1, 1), (7, 1, 2)])
def test_shuffled_rows_are_the_same_base_models_in_other_orders(
    shape: tuple[int, ...],
) -> None:
    scores = np.random.default_rng(1).normal(size=shape)
    decisions = np.arange(len(scores))
    many, again = shuffle_scores(scores, decisions, 3)
    assert len(many) == len(again) == fitting_rows.SHUFFLED * len(scores)
    assert np.array_equal(many[: len(scores)], scores)
    for row, number in zip(many, again, strict=True):
        # all classes of a base model move together
        assert sorted(map(np.ndarray.tolist, row.reshape(shape[1], -1))) == sorted(
            map(np.ndarray.tolist, scores[number].reshape(shape[1], -1))
        )
    others = np.concatenate([scores] * (fitting_rows.SHUFFLED - 1))
    assert (many[len(scores) :] != others).any() == (shape[1] > 1)


def test_copies_are_as_many_as_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scores = np.zeros((10, 4))
    for most, copies in ((35, 3), (9, 1), (10**6, 8)):
        monkeypatch.setattr(fitting_rows, "MOST_SHUFFLED", most)
        assert len(shuffle_scores(scores, np.zeros(10), 0)[0]) == 10 * copies
    monkeypatch.setattr(fitting_rows, "MOST_BYTES", 2 * scores.nbytes)
    assert len(shuffle_scores(scores, np.zeros(10), 0)[0]) == 20


@pytest.mark.parametrize("classes", [2, 3])
def test_the_trees_of_a_forest_keep_their_order(classes: int) -> None:
    X, y = make_classification(
        600, n_informative=6, n_classes=classes, n_clusters_per_class=1, random_state=0
    )
    X = X.astype(np.float32)
    fitted = RandomForestClassifier(20, max_depth=5, random_state=0)
    forest = compile(fitted.fit(X[:200], y[:200]))
    assert forest.exchangeable
    exits = forest.fit_early_exit(X[200:], alpha=0.05)
    assert exits.schedule.order.tolist() == [*range(20)]
    chosen, used = exits.choices(X[200:])
    whole = forest.classifier.head.choose(forest.classifier.scorer.raw(X[200:]))
    assert used.mean() < 20
    assert np.mean(chosen != whole) <= 0.05
    other = forest.fit_early_exit(X[200:], alpha=0.05, seed=1).arrays()
    limits = "upper" if classes == 2 else "margin"  # the copies have other orders
    assert not np.array_equal(exits.arrays()[limits], other[limits])
    given = forest.fit_early_exit(X[200:], alpha=0.05, order=[*range(19, -1, -1)])
    assert given.schedule.order.tolist() == [*range(19, -1, -1)]
    boosting = GradientBoostingClassifier(n_estimators=5).fit(X[:200], y[:200])
    assert not compile(boosting).exchangeable


def test_swap_columns_keeps_the_rows_and_swaps_about_as_many_columns_as_asked() -> None:
    rows = np.random.default_rng(0).normal(size=(500, 10)).astype(np.float32)
    more = swap_columns(rows, copies=2, swaps=1.5)
    assert more.shape == (1500, 10)
    np.testing.assert_array_equal(more[:500], rows)
    changed = (more[500:].reshape(2, 500, 10) != rows).sum(axis=2)
    assert changed.mean() == pytest.approx(1.5, abs=0.1)
    for j in range(10):
        assert np.isin(more[:, j], rows[:, j]).all()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"rows": np.zeros(3)}, r"shape \(3,\)"),
        ({"copies": -1}, "copies is -1"),
        ({"swaps": 0.0}, "swaps is 0.0"),
        ({"swaps": 4.0}, "at most the 3 columns"),
    ],
)
def test_swap_columns_says_what_is_wrong(
    arguments: dict[str, Any], reason: str
) -> None:
    with pytest.raises(BadInput, match=reason):
        swap_columns(**({"rows": np.zeros((4, 3), np.float32)} | arguments))
