"""Promises for each class: tests of schedules on calibration rows, and their level."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydom.features.errors import BadInput
from polydom.models.qwyc.confidence_bound import most_changed
from polydom.models.qwyc.fit_schedule import fit_margin_schedule, fit_schedule
from polydom.models.qwyc.fixed_sequence import (
    ClassTests,
    FreshRows,
    calibrate,
    calibrate_sides,
    last_passing,
    meeting,
)
from polydom.models.qwyc.promise import shares_by_class, shares_by_label
from polydom.models.qwyc.schedule import MarginSchedule, Schedule
from polydom.models.scoring.remaining_bounds import bound_remaining
from tests.support.models.votes import noisy_rounds, noisy_votes
from tests.support.oracles.qwyc import changed_by_class, last_kept

Floats = NDArray[np.float64]


def rung(limit: float) -> MarginSchedule:
    """Two base models for three classes; the first stops beyond a margin."""
    return MarginSchedule(np.arange(2), np.array([limit, np.inf]), np.zeros(3))


@given(
    st.integers(0, 10**6),
    st.lists(st.sampled_from([0.0, 0.1, 0.3, 0.6]), min_size=3, max_size=3),
    st.sampled_from([0.5, 0.9]),
    st.integers(1, 60),
)
def test_a_ladder_ends_where_a_class_fails_by_its_own_count(
    seed: int, alphas: list[float], confidence: float, rows: int
) -> None:
    """A class that proves nothing must not change at all."""
    draw = np.random.default_rng(seed)
    scores = draw.integers(-4, 5, (rows, 2, 3)) / 4
    whole = scores.sum(axis=1).argmax(axis=1)
    ladder = [rung(limit) for limit in (2.0, 1.0, 0.5, 0.25, 0.0)]
    outcomes = [
        changed_by_class(one.evaluate(scores)[0].tolist(), whole.tolist(), 3)
        for one in ladder
    ]
    counts = np.bincount(whole, minlength=3)
    tests = ClassTests.of(whole, np.array(alphas), confidence)
    assert tests.rows.tolist() == counts.tolist()
    kept = last_kept(outcomes, counts.tolist(), alphas, [confidence] * 3)
    step = 1 + seed % rows
    fresh = FreshRows(
        whole,
        lambda: (
            (scores[i : i + step], whole[i : i + step]) for i in range(0, rows, step)
        ),
    )
    (found,) = last_passing([ladder], fresh, tests)
    if kept is None:
        assert found is None
        assert np.isinf(calibrate(ladder, fresh, tests).margin).all()
        return
    assert found is not None
    assert (found[0] is ladder[kept], found[1].tolist()) == (True, outcomes[kept])
    if not tests.lacking.all():
        promise = calibrate(ladder, fresh, tests).promise
        assert promise is not None
        assert promise.changed == tuple(outcomes[kept])
        for bound, alpha, lacks in zip(
            promise.bounds, alphas, tests.lacking, strict=True
        ):
            assert bound == (0.0 if lacks else alpha)


@given(
    st.integers(0, 10**6),
    st.tuples(*[st.sampled_from([0.0, 0.1, 0.3, 0.6])] * 2),
    st.sampled_from([0.5, 0.9]),
)
def test_sides_end_apart_and_together_change_no_more_than_each_alone(
    seed: int, alphas: tuple[float, float], confidence: float
) -> None:
    draw = np.random.default_rng(seed)
    scores = draw.integers(-4, 5, (80, 3)) / 4
    whole = scores.sum(axis=1) >= 0
    counts = np.bincount(whole, minlength=2)
    steps = np.sort(draw.integers(-6, 7, (6, 2, 3)) / 4, axis=0)
    ladder = [(low, high[::-1]) for low, high in steps]
    for lower, upper in ladder:
        lower[-1], upper[-1] = -np.inf, np.inf

    def made(lower: Floats, upper: Floats) -> Schedule:
        return Schedule(np.arange(3), lower, upper, 0.0)

    fresh = FreshRows.of(whole, scores, whole)
    tests = ClassTests.of(whole, np.array(alphas), confidence, apart=True)
    never = np.full(3, np.inf)
    chosen = calibrate_sides(iter(ladder), made, fresh, tests, (-never, never))
    promise = chosen.promise
    assert promise is not None
    # the doubt is divided in inverse proportion to the rows, if both classes are tested
    weights = np.where(tests.lacking, 0.0, 1 / np.maximum(counts, 1))
    sure = 1 - (1 - confidence) * weights / max(weights.sum(), 1e-9)
    for k, alone in enumerate(
        (
            [made(-never, up) for _, up in ladder],
            [made(low, never) for low, _ in ladder],
        )
    ):
        outcomes = [
            changed_by_class(one.evaluate(scores)[0].tolist(), whole.tolist(), 2)[k]
            for one in alone
        ]
        kept = None
        if not tests.lacking[k]:
            kept = last_kept(
                [[wrong] for wrong in outcomes], [counts[k]], [alphas[k]], [sure[k]]
            )
        assert promise.bounds[k] == (0.0 if kept is None else alphas[k])
        assert promise.changed[k] == (0 if kept is None else outcomes[kept])
    wrong = np.bincount(chosen.changed(scores, whole), minlength=2)
    assert (wrong <= promise.changed).all()


def test_thresholds_that_cross_meet_in_the_middle() -> None:
    lower, upper = np.array([-np.inf, 1.0, 3.0]), np.array([0.0, np.inf, 1.0])
    low, high = meeting(lower, upper)
    assert low.tolist() == [-np.inf, 1.0, 2.0]
    assert high.tolist() == [0.0, np.inf, 2.0]


def test_a_class_of_many_rows_leaves_the_doubt_to_the_rare_one() -> None:
    decisions = np.repeat([0, 1], [100_000, 610])
    tests = ClassTests.of(decisions, np.full(2, 0.005), 0.95, apart=True)
    assert not tests.lacking.any()
    assert most_changed(610, 0.005, 0.975) < 0  # an equal share would not do
    assert tests.most[1] == 0
    rarer = ClassTests.of(decisions[:-50], np.full(2, 0.005), 0.95, apart=True)
    assert rarer.lacking.tolist() == [False, True]
    assert rarer.most[0] == most_changed(100_000, 0.005, 0.95)


@pytest.mark.parametrize("apart", [False, True])
def test_classes_of_no_row_of_one_row_and_of_alpha_0_are_lacking(apart: bool) -> None:
    decisions = np.array([0] * 200 + [2] + [3] * 200)
    alphas = np.array([0.1, 0.1, 0.1, 0.0])
    tests = ClassTests.of(decisions, alphas, 0.9, apart=apart)
    assert tests.rows.tolist() == [200, 0, 1, 200]
    assert tests.lacking.tolist() == [False, True, True, True]
    promise = tests.promise(np.array([3, 0, 0, 0]))
    assert promise.bounds == (0.1, 0.0, 0.0, 0.0)


SCORES = noisy_votes(2600, 12)
RARE = float(np.quantile(SCORES.sum(axis=1), 0.97))  # few rows are above it


@pytest.mark.jit
@pytest.mark.parametrize("proves", [False, True])
def test_a_rare_class_is_left_only_where_nothing_can_overrule(proves: bool) -> None:
    ends = SCORES.min(axis=0), SCORES.max(axis=0)

    def proven(order: Any) -> tuple[Floats, Floats]:
        return bound_remaining(*ends, order).limits(RARE)

    schedule = fit_schedule(
        SCORES[:1300],
        RARE,
        0.02,
        confidence=0.9,
        calibration=SCORES[1300:],
        proven=proven if proves else None,
    )
    promise = schedule.promise
    assert promise is not None
    positive = SCORES[1300:].sum(axis=1) >= RARE
    assert 0 < positive.sum() < 110
    assert promise.bounds == (0.02, 0.0)
    assert np.isfinite(schedule.lower).any() == proves
    if proves:
        limits = proven(schedule.order)[0]
        np.testing.assert_array_equal(
            schedule.lower, np.minimum(limits, schedule.upper)
        )
    assert 1 not in schedule.changed(SCORES)


@pytest.mark.jit
def test_a_rare_class_keeps_its_share_where_one_of_all_would_lose_it() -> None:
    """Without a confidence, too, each class counts for itself."""
    schedule = fit_schedule(SCORES, RARE, (0.02, 0.0))
    assert set(schedule.changed(SCORES).tolist()) == {0}
    positive = SCORES.sum(axis=1) >= RARE
    both = fit_schedule(SCORES, RARE, 0.02)
    lost = np.bincount(both.changed(SCORES), minlength=2)
    assert (lost <= 0.02 * np.bincount(positive)).all()
    assert both.evaluate(SCORES)[1].mean() <= schedule.evaluate(SCORES)[1].mean()


@pytest.mark.jit
def test_sides_stop_one_class_only_and_mirror_each_other() -> None:
    fit, fresh = SCORES[:1300], SCORES[1300:]
    terms: dict[str, Any] = {"confidence": 0.9}
    negative = fit_schedule(
        fit, 0.0, (0.0, 0.05), sides="negative", calibration=fresh, **terms
    )
    assert np.isposinf(negative.upper).all()
    assert negative.promise is not None
    assert negative.promise.bounds == (0.0, 0.05)
    below = fit.sum(axis=1) >= 0, fresh.sum(axis=1) >= 0
    mirrored = fit_schedule(
        -fit,
        0.0,
        (0.05, 0.0),
        sides="positive",
        decisions=~below[0],
        calibration=-fresh,
        calibration_decisions=~below[1],
        **terms,
    )
    np.testing.assert_array_equal(mirrored.order, negative.order)
    np.testing.assert_array_equal(mirrored.upper, -negative.lower)
    assert np.isneginf(mirrored.lower).all()
    assert mirrored.promise == replace(
        negative.promise,
        bounds=(0.05, 0.0),
        rows=negative.promise.rows[::-1],
        changed=negative.promise.changed[::-1],
    )


@pytest.mark.jit
def test_margins_protect_a_class_of_too_few_rows() -> None:
    scores = noisy_rounds(3000, 10)
    bias = np.array([0.0, 0.0, 0.0, -3.0])  # the last class is hardly ever chosen

    def proven(order: Any) -> Floats:
        return np.repeat(np.linspace(6.0, 3.0, 10)[:, None], 4, axis=1)

    made = [
        fit_margin_schedule(
            scores[:1500],
            0.1,
            bias=bias,
            confidence=0.9,
            calibration=scores[1500:],
            proven=limits,
        )
        for limits in (None, proven)
    ]
    never, kept = made
    assert np.isinf(never.margin).all()
    assert (kept.margin >= proven(None)[:, 3]).all()
    assert kept.promise is not None
    assert kept.promise.bounds[3] == 0.0


DRAWS, LEVEL = 400, 0.1


def simulated_level(alphas: Floats, apart: bool) -> float:
    """Share of draws of calibration rows by which a schedule is chosen that breaks it.

    Positions of a ladder change more and more rows of two classes, each at its own
    known rate: of class 1, which is rare, four times as many as of class 0.
    """
    draw = np.random.default_rng(3)
    rates = np.array([0.002, 0.01, 0.02, 0.03, 0.045, 0.055, 0.07, 0.1])
    broken = 0
    for _ in range(DRAWS):
        levels = draw.random(1500)
        whole = draw.random(1500) < 0.2
        first = np.where(whole, -levels / 4, levels)
        scores = np.column_stack([first, np.zeros(1500)])
        ladder = []
        for rate in rates:
            # rows of class 1 lie in [-1/4, 0], of class 0 in [0, 1]: a wrong low stop
            # begins at -1/4, a wrong high stop at 1
            low, high = rate - 0.25, 1 - rate
            ladder.append((np.array([low, -np.inf]), np.array([high, np.inf])))

        def made(lower: Floats, upper: Floats) -> Schedule:
            return Schedule(np.arange(2), lower, upper, 0.0)

        tests = ClassTests.of(whole, alphas, 1 - LEVEL, apart=apart)
        fresh = FreshRows.of(whole, scores, whole)
        if apart:
            never = np.full(2, np.inf)
            chosen = calibrate_sides(iter(ladder), made, fresh, tests, (-never, never))
        else:
            chosen = calibrate([made(*one) for one in ladder], fresh, tests)
        lost = 4 * (chosen.lower[0] + 0.25), 1 - chosen.upper[0]
        broken += lost[0] > alphas[1] or lost[1] > alphas[0]
    return broken / DRAWS


@pytest.mark.jit
@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("alphas", [(0.04, 0.05), (0.02, 0.2)])
def test_promises_of_both_classes_break_in_at_most_their_level(
    alphas: tuple[float, float], apart: bool
) -> None:
    level = simulated_level(np.array(alphas), apart)
    # three standard errors
    assert level <= LEVEL + 3 * (LEVEL * (1 - LEVEL) / DRAWS) ** 0.5


@pytest.mark.parametrize(
    ("alpha", "message"),
    [
        (np.nan, "alpha is nan"),
        ([0.1, 1.0], r"alpha is 1.0; it must be in \[0, 1\)"),
        ([0.1, 0.1, 0.1], r"alpha has shape \(3,\); .* each of the 2 classes"),
        ("much", "alpha is 'much'"),
    ],
)
def test_shares_that_cannot_be_are_refused(alpha: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        shares_by_class(alpha, 2)


def test_shares_by_label_name_the_labels_that_there_are() -> None:
    labels = ["fraud", "ok"]
    assert shares_by_label({"fraud": 0.0}, labels).tolist() == [0.0, 0.005]
    assert shares_by_label({"fraud": 0.1, "*": 0.2}, labels).tolist() == [0.1, 0.2]
    assert shares_by_label({True: 0.1}, [False, True]).tolist() == [0.005, 0.1]
    assert shares_by_label(0.3, labels).tolist() == [0.3, 0.3]
    with pytest.raises(BadInput, match=r"names the class 'fruad'; .* 'fraud', 'ok', "):
        shares_by_label({"fruad": 0.1}, labels)
    with pytest.raises(BadInput, match="alpha of 'ok' is 'no'"):
        shares_by_label({"ok": "no"}, labels)
    with pytest.raises(BadInput, match=r"alpha is nan"):
        shares_by_label({"ok": np.nan}, labels)
