"""Linear terms that stop early, compiled: against NumPy's, and one by one."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import BernoulliNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from polydom.features.errors import BadRow
from polydom.models import MarginSchedule, Schedule, compile
from polydom.models.early_exit.ensemble import Ensemble, as_ensemble
from polydom.models.linear.early_sums import join_operations, lay_blocks
from polydom.models.linear.linear import Linear
from polydom.models.scoring.classifier import Classifier, Head
from polydom.models.scoring.kernels.cached_njit import COMPILED
from polydom.models.scoring.kernels.link import LARGEST, LOGISTIC, POSITIVE, SOFTMAX
from polydom.models.scoring.kernels.preparation import BINARISE, CENTER
from polydom.models.scoring.preparation import UNCHANGED, Preparation, plain
from polydom.models.scoring.stopping_rule import Limits, Margins, Never
from tests.support.examples import few
from tests.support.models.agreement import bundled
from tests.support.oracles.early_exit import walk_early, walk_margins

Floats = NDArray[np.float64]
ODD = [np.nan, np.inf, -np.inf, 0.0, -0.0, 3e38, 1e-45]


def drawn_preparation(draw: np.random.Generator, d: int) -> Preparation:
    """Affine operations, of which some fill gaps, hold values or have no slope."""
    steps = int(draw.integers(0, 4))
    table = np.empty((steps, 7, d))
    for row in table:
        fill = draw.choice([np.nan, 0.0, 1.5], d)
        low, high = np.sort(draw.normal(0, 2, (2, d)), axis=0)
        slopes = draw.choice([-1.0, 1.0, 0.5], (2, d)) * draw.choice([1.0, 3.0], (2, d))
        slopes[1, draw.random(d) < 0.1] = 0.0
        row[:] = fill, draw.normal(size=d), *slopes, draw.normal(size=d), low, high
        free = draw.random(d) < draw.choice([0.0, 0.5, 1.0])
        row[5:, free] = np.array([[-np.inf], [np.inf]])
        row[0, draw.random(d) < draw.choice([0.0, 1.0])] = np.nan
    columns = draw.permutation(d + 3)[:d].astype(np.int32)
    made = Preparation(columns, np.zeros(steps, np.int64), table)
    if draw.random() < 0.3:
        table[:, 2:4] = np.abs(table[:, 2:4]) + 0.1
        made = made.then_binarise(float(draw.choice([0.0, 0.3, -9.0, 9.0])))
    return made


def drawn_linear(draw: np.random.Generator, d: int, R: int, prepared: bool) -> Ensemble:
    preparation = drawn_preparation(draw, d) if prepared else plain(np.arange(d))
    weights = draw.normal(size=(d, R)) * draw.choice([0.0, 1.0, 30.0], (d, 1))
    link, rule = (LOGISTIC, POSITIVE) if R == 1 else (SOFTMAX, LARGEST)
    head = Head(np.arange(max(R, 2)), link, rule, R)
    scorer = Linear(preparation, weights, draw.normal(size=R))
    return as_ensemble(Classifier(scorer, head))


def drawn_schedule(
    ensemble: Ensemble, draw: np.random.Generator, width: float, looked: float
) -> Any:
    """Limits that are finite at a share of the positions."""
    order, T = draw.permutation(ensemble.size), ensemble.size
    none = draw.random(T) >= looked
    if not ensemble.binary:
        margin = np.where(none, np.inf, draw.uniform(0, width, T))
        return MarginSchedule(order, margin, ensemble.bias)
    limits = np.sort(draw.normal(0, width, (T, 2)), axis=1) + ensemble.threshold
    limits[none] = -np.inf, np.inf
    return Schedule(order, limits[:, 0], limits[:, 1], ensemble.threshold)


@pytest.mark.jit
@pytest.mark.parametrize("R", [1, 2, 3, 10])
@settings(max_examples=few(60), deadline=None)
@given(
    seed=st.integers(0, 9999),
    d=st.sampled_from([1, 3, 15, 16, 17, 64, 100]),
    looked=st.sampled_from([0.0, 0.1, 1.0]),
    prepared=st.booleans(),
)
def test_kernels_answer_as_a_walk_by_hand(
    R: int, seed: int, d: int, looked: float, prepared: bool
) -> None:
    draw = np.random.default_rng(seed)
    ensemble = drawn_linear(draw, d, R, prepared)
    X = draw.normal(0, 3, (20, d + 3)).astype(np.float32)
    scores = ensemble.base_scores(X)
    width = float(np.abs(scores).sum(axis=1).mean()) * draw.choice([0.02, 0.2, 9.0])
    exits = ensemble.early_exit(drawn_schedule(ensemble, draw, width + 1e-9, looked))
    assert exits.packed is not None
    order = exits.schedule.order.tolist()
    codes, used = exits.choices(X)
    wide = exits.choices(X.astype(np.float64))
    np.testing.assert_array_equal(wide, (codes, used))
    assert [exits.answer(row)[:2] for row in X] == list(zip(codes, used, strict=True))
    assert [exits.choose(row) for row in X] == codes.tolist()
    whole = ensemble.predict_scores(X)
    if isinstance(exits.schedule, Schedule):
        limits = exits.schedule.lower, exits.schedule.upper, exits.schedule.threshold
        slow = walk_early(scores, order, *limits)
        assert (codes.astype(bool).tolist(), used.tolist()) == slow
    else:
        margin = exits.schedule.margin
        slow3 = [walk_margins(row, order, margin, ensemble.bias) for row in scores]
        assert list(zip(codes, used, strict=True)) == slow3
    for row, own in zip(X, whole, strict=True):
        answer = exits.answer(row)
        assert answer.bounds is None
        if answer.scores is not None:
            np.testing.assert_allclose(answer.scores, own, rtol=1e-9, atol=1e-12)


def asked(call: Callable[[Any], int], row: Any) -> int | str:
    """What is answered, or said of a row that is refused."""
    try:
        return call(row)
    except BadRow as error:
        return str(error)


@pytest.mark.jit
@pytest.mark.parametrize("R", [1, 3])
@settings(max_examples=few(60), deadline=None)
@given(seed=st.integers(0, 9999), prepared=st.booleans())
def test_what_is_no_number_is_refused_or_decided_as_the_classifier_does(
    R: int, seed: int, prepared: bool
) -> None:
    draw = np.random.default_rng(seed)
    d = int(draw.choice([5, 40]))
    ensemble = drawn_linear(draw, d, R, prepared)
    X = draw.normal(0, 3, (20, d + 3)).astype(np.float32)
    odd = draw.random(X.shape) < draw.choice([0.01, 0.2])
    X[odd] = draw.choice(np.array(ODD, np.float32), odd.sum())
    whole = drawn_schedule(ensemble, draw, 1.0, 0.0)
    sooner = drawn_schedule(ensemble, draw, 5.0, 0.3)
    last, early = (ensemble.early_exit(made) for made in (whole, sooner))
    assert last.packed is not None
    with np.errstate(all="ignore"):
        for row in X:
            expected = asked(ensemble.classifier.choose, row)
            assert asked(last.choose, row) == expected
            assert asked(lambda row: last.answer(row).code, row) == expected
            found = asked(lambda row: early.answer(row).used, row)
            if isinstance(expected, str) and isinstance(found, int):
                # It stopped before it came to the gap.
                read = ensemble.classifier.columns[early.schedule.order[:found]]
                assert np.isfinite(row[read]).all() or prepared


@settings(max_examples=few(100), deadline=None)
@given(seed=st.integers(0, 9999), d=st.integers(1, 8))
def test_joined_operations_give_what_they_do_one_by_one(seed: int, d: int) -> None:
    draw = np.random.default_rng(seed)
    made = drawn_preparation(draw, d)
    X = draw.normal(0, 3, (30, d + 3)).astype(np.float32)
    X[draw.random(X.shape) < 0.2] = np.nan
    joined = join_operations(made)
    assert joined is not None
    shapes, (slope, passed) = joined
    x = X[:, made.columns].astype(np.float64)
    held = np.clip(x * shapes.gain + shapes.offset, shapes.low, shapes.high)
    found = np.where(np.isnan(x), shapes.filling, held)
    np.testing.assert_allclose(found, made.apply(X), rtol=1e-12, atol=1e-12)
    assert (passed >= 0).all()
    assert (slope >= 0).all()
    assert shapes.bare == (
        np.isinf(shapes.low).all()
        and np.isinf(shapes.high).all()
        and np.isnan(shapes.filling).all()
    )


@settings(max_examples=few(60), deadline=None)
@given(seed=st.integers(0, 9999), count=st.integers(0, 2))
def test_flags_are_those_of_every_value_beside_a_threshold(
    seed: int, count: int
) -> None:
    draw = np.random.default_rng(seed)
    at = draw.choice(np.array([0.0, -0.0, 1e-45, -1e-45, 3e38, 0.1, -7.3]), 40)
    table = np.tile(UNCHANGED[None, :, None], (count, 1, 40))
    table[:, 1], table[:, 2] = draw.normal(size=(count, 40)), 3.0
    table[:, 0] = draw.choice([np.nan, 0.1], (count, 40))
    before = Preparation(np.arange(40, dtype=np.int32), np.zeros(count, int), table)
    limits = before.apply(at[None].astype(np.float32))[0]
    flags = Preparation(
        before.columns,
        np.append(before.operations, BINARISE),
        np.concatenate([table, np.tile(UNCHANGED[None, :, None], (1, 1, 40))]),
    )
    flags.table[-1, CENTER] = limits
    joined = join_operations(flags)
    assert joined is not None
    shapes = joined[0]
    x = at.astype(np.float32)
    odd = draw.choice(np.array([np.nan, 3.4e38, -3.4e38], np.float32), 40)
    for X in (x, np.nextafter(x, np.float32(9e37)), np.nextafter(x, -x - 1), odd):
        held = np.clip(
            X * shapes.gain + shapes.offset, shapes.low, shapes.high, dtype=np.float64
        )
        found = np.where(np.isnan(X), shapes.filling, held)
        np.testing.assert_array_equal(found, flags.apply(X[None])[0])


@given(st.lists(st.booleans(), min_size=1, max_size=80), st.booleans())
def test_blocks_end_where_sums_are_looked_at(looked: list[bool], low: bool) -> None:
    d = len(looked)
    order = np.random.default_rng(d).permutation(d)
    limits = np.where(looked, 0.0, np.inf)
    stops = Limits(-limits, np.full(d, np.inf)) if low else Margins(limits)
    laid, spare, ends, looks = lay_blocks(order, stops)
    blocks, block = [], []
    for t, stop in zip(order.tolist(), looked, strict=True):
        block.append(t)
        if stop:
            blocks.append(block)
            block = []
    blocks += [block] if block else []
    assert looks.tolist() == np.cumsum([len(b) for b in blocks]).tolist()
    found = np.split(np.where(spare, -1, laid), ends[:-1])
    assert [[t for t in part.ravel().tolist() if t >= 0] for part in found] == blocks
    for part, own in zip(np.split(laid, ends[:-1]), blocks, strict=True):
        assert set(part.ravel().tolist()) == set(own)


def test_what_has_no_kernel_gives_none() -> None:
    order, limits = np.arange(2), Limits(np.zeros(2), np.zeros(2))
    inputs, weights = plain(np.arange(2)), np.ones((2, 1))
    huge = Preparation(
        inputs.columns,
        np.zeros(1, np.int64),
        np.array([[np.nan, 0.0, 1e-300, 1.0, 0.0, -np.inf, np.inf]] * 2).T[None],
    )
    twice = inputs.then_binarise(0.5).then_fill(0.0)
    for preparation, scale in ((twice, 1.0), (huge, 1e300)):
        made = Linear(preparation, scale * weights, np.zeros(1))
        assert made.pack(order, limits) is None
    made = Linear(inputs, weights, np.zeros(1))
    assert (made.pack(order, limits) is None) == (not COMPILED)
    assert made.pack(order, Never()) is None


@pytest.mark.parametrize("classes", [2, 3])
def test_rows_that_are_divided_by_a_norm_stop_early_too(classes: int) -> None:
    X, y = bundled("wine")
    X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    learner = make_pipeline(Normalizer(), LogisticRegression())
    ensemble = compile(learner.fit(X, y if classes > 2 else y > 0))
    exits = ensemble.fit_early_exit(X, alpha=0.02)
    rows = X.astype(np.float32)
    assert exits.packed is None
    codes, _ = exits.choices(rows)
    assert [exits.answer(row).code for row in rows] == codes.tolist()
    assert np.mean(codes != ensemble.predict(rows)) <= 0.03


@pytest.mark.parametrize("classes", [2, 3])
def test_rows_that_are_compared_stop_early_in_one_call(classes: int) -> None:
    X, y = bundled("wine")
    X = X.astype(np.float32)
    learner = make_pipeline(StandardScaler(), BernoulliNB(binarize=0.2))
    ensemble = compile(learner.fit(X, y if classes > 2 else y > 0))
    draw = np.random.default_rng(0)
    exits = ensemble.early_exit(drawn_schedule(ensemble, draw, 1.0, 0.5))
    assert (exits.packed is None) == (not COMPILED)
    codes, used = exits.choices(X)
    np.testing.assert_array_equal(exits.choices(X.astype(np.float64)), (codes, used))
    assert [exits.answer(row)[:2] for row in X] == list(zip(codes, used, strict=True))
    assert used.mean() < ensemble.size
    fitted = ensemble.fit_early_exit(X, alpha=0.02)
    assert np.mean(fitted.predict(X) != ensemble.predict(X)) <= 0.02


@pytest.mark.jit
def test_sums_that_rounding_might_turn_are_left_to_the_classifier() -> None:
    """Terms that cancel, far beyond the share of a tie that is always left to it."""
    draw = np.random.default_rng(0)
    weights = draw.normal(size=(400, 1)) * 10.0 ** draw.uniform(-2, 12, (400, 1))
    X = draw.normal(size=(300, 401)).astype(np.float32)
    X[:, :400] = np.repeat(X[:, :200], 2, axis=1)
    weights[1::2] = -weights[::2]
    mixed = draw.permutation(400)
    weights, X[:, :400] = weights[mixed], X[:, mixed]
    scorer = Linear(plain(np.arange(400)), weights, np.array([0.0]))
    head = Head(np.array([0, 1]), LOGISTIC, POSITIVE, 1)
    ensemble = as_ensemble(Classifier(scorer, head))
    exits = ensemble.early_exit(drawn_schedule(ensemble, draw, 1.0, 0.0))
    assert exits.packed is not None
    expected = [ensemble.classifier.choose(row) for row in X]
    assert 0 < np.mean(expected) < 1
    assert [exits.choose(row) for row in X] == expected
    assert [exits.answer(row).code for row in X] == expected
    np.testing.assert_array_equal(exits.choices(X)[0], expected)


@pytest.mark.jit
@pytest.mark.parametrize("copied", [False, True])
def test_two_large_sums_with_a_small_difference_are_rounded_as_they_are(
    copied: bool,
) -> None:
    draw = np.random.default_rng(0)
    both = 1e9 * draw.normal(size=(200, 1)) + draw.normal(size=(200, 2))
    scorer = Linear(plain(np.arange(200)), both, np.zeros(2))
    ensemble = as_ensemble(Classifier(scorer, Head(np.arange(2), SOFTMAX, LARGEST, 2)))
    X = draw.normal(size=(400, 200)).astype(np.float32)
    apart = ensemble.base_scores(X).sum(axis=1)
    # Bring each sum as near to the threshold as float32 can.
    X[:, 0] -= (apart / (both[0, 1] - both[0, 0])).astype(np.float32)
    exits = ensemble.early_exit(drawn_schedule(ensemble, draw, 1.0, 0.0))
    if copied:
        exits = pickle.loads(pickle.dumps(exits))
    assert exits.packed is not None
    expected = [ensemble.classifier.choose(row) for row in X]
    assert 0.2 < np.mean(expected) < 0.8
    assert [exits.answer(row).code for row in X] == expected
    np.testing.assert_array_equal(exits.choices(X)[0], expected)
