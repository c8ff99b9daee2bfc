"""Fitting schedules: QWYC's algorithms, orders, optimal stopping."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydom.features.errors import BadInput
from polydom.models.qwyc.active_examples import ActiveExamples
from polydom.models.qwyc.base_model_costs import ModelCosts, cut_stages
from polydom.models.qwyc.fit_schedule import fit_margin_schedule, fit_schedule
from polydom.models.qwyc.kernels.impurity import (
    BINS,
    MARGIN_BINS,
    measure_impurity,
    measure_margin_impurity,
)
from polydom.models.qwyc.kernels.optimal_stopping import (
    GRID,
    cheapest_cuts,
    fill_levels,
)
from polydom.models.qwyc.optimal_stopping import Stopping
from polydom.models.qwyc.ordering import AHEAD
from polydom.models.qwyc.running_sums import (
    MarginSums,
    ScoreSums,
    list_entries,
    whole_sums,
)
from polydom.models.qwyc.schedule import Schedule
from polydom.models.scoring.stopping_rule import margins_of
from tests.support.examples import few
from tests.support.models.votes import (
    SCORES,
    drawn_class_scores,
    drawn_scores,
    noisy_rounds,
    noisy_votes,
)
from tests.support.oracles.early_exit import walk_early
from tests.support.oracles.qwyc import (
    cheapest_stop,
    impurity_after,
    level_of,
    margin_impurity,
    quit_when_you_can,
)

Floats = NDArray[np.float64]
ALIKE = np.ones(2)  # relative prices of two classes


@pytest.mark.parametrize("sides", ["both", "negative"])
@given(scores=drawn_scores(), alpha=st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9]))
def test_qwyc_algorithm_1_agrees_with_trying_every_pair_of_thresholds(
    sides: Any, scores: Floats, alpha: float
) -> None:
    costs = np.array([1.0, 2.0, 1.5, 1.0])[: scores.shape[1]]
    schedule = fit_schedule(
        scores, 0.0, alpha, method="qwyc", costs=costs, sides=sides, threads=1
    )
    order, lower, upper = quit_when_you_can(
        scores, 0.0, int(alpha * len(scores)), costs, None, sides == "both"
    )
    assert schedule.order.tolist() == order
    decisions, used = schedule.evaluate(scores)
    slow = walk_early(scores, order, lower, upper, 0.0)
    assert (decisions.tolist(), used.tolist()) == slow


@given(
    scores=drawn_scores(models=3),
    uses=st.lists(st.booleans(), min_size=6, max_size=6),
    alpha=st.sampled_from([0.0, 0.1, 0.5]),
)
def test_qwyc_pays_a_feature_once(
    scores: Floats, uses: list[bool], alpha: float
) -> None:
    reads, prices = np.array(uses).reshape(3, 2), np.array([4.0, 0.5])
    schedule = fit_schedule(
        scores, 0.0, alpha, method="qwyc", feature_costs=prices, uses=reads
    )
    named = {k: {str(f): prices[f] for f in range(2) if reads[k, f]} for k in range(3)}
    order, lower, upper = quit_when_you_can(
        scores, 0.0, int(alpha * len(scores)), np.ones(3), None, True, named
    )
    assert schedule.order.tolist() == order
    slow = walk_early(scores, order, lower, upper, 0.0)
    decisions, used = schedule.evaluate(scores)
    assert (decisions.tolist(), used.tolist()) == slow


@pytest.mark.jit
def test_features_that_help_together_are_opened_together() -> None:
    """A dear feature whose many models settle most comes before a cheap useless one."""
    draws = np.random.default_rng(5)
    hidden = draws.normal(size=(2000, 1))
    useful = (hidden + draws.normal(size=(2000, 10))) / 10
    useless = draws.normal(size=(2000, 5)) / 100
    scores = np.hstack([useless, useful])
    uses = np.zeros((15, 2), np.bool_)
    uses[:5, 0] = uses[5:, 1] = True
    schedule = fit_schedule(
        scores,
        0.0,
        0.02,
        costs=np.full(15, 1e-3),
        feature_costs=[3.0, 5.0],
        uses=uses,
    )
    assert [stage.features for stage in cut_stages(schedule.order, uses)] == [
        (1,),
        (0,),
    ]
    assert schedule.order[:10].min() >= 5


@pytest.mark.jit
def test_whole_features_are_often_never_computed() -> None:
    scores = noisy_votes(2000, 30)
    uses = np.repeat(np.eye(3, dtype=np.bool_), 10, axis=0)
    prices = np.array([1.0, 10.0, 100.0])
    costs = np.full(30, 1e-3)
    aware = fit_schedule(
        scores, 0.0, 0.01, costs=costs, feature_costs=prices, uses=uses
    )
    unaware = fit_schedule(scores, 0.0, 0.01, costs=costs)
    mean = {}
    for name, schedule in {"aware": aware, "unaware": unaware}.items():
        paid = np.cumsum(ModelCosts(costs, prices, uses).along(schedule.order))
        mean[name] = paid[schedule.evaluate(scores)[1] - 1].mean()
    assert mean["aware"] < 0.75 * mean["unaware"]
    assert [s.features for s in cut_stages(aware.order, uses)] == [(0,), (1,), (2,)]


@pytest.mark.parametrize("sides", ["both", "negative"])
@given(
    scores=drawn_scores(models=4),
    order=st.permutations(range(4)),
    alpha=st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9]),
)
def test_qwyc_algorithm_2_agrees_with_trying_every_pair_of_thresholds(
    sides: Any, scores: Floats, order: list[int], alpha: float
) -> None:
    schedule = fit_schedule(
        scores, 0.0, alpha, method="fixed", order=order, sides=sides
    )
    assert schedule.order.tolist() == order
    _, lower, upper = quit_when_you_can(
        scores, 0.0, int(alpha * len(scores)), [1.0] * 4, order, sides == "both"
    )
    decisions, used = schedule.evaluate(scores)
    slow = walk_early(scores, order, lower, upper, 0.0)
    assert (decisions.tolist(), used.tolist()) == slow


def test_qwyc_pipelined_set_cover_takes_the_widest_cover_first() -> None:
    """QWYC, appendix A.1: each model settles rows of its own, whatever came before."""
    scores = np.zeros((7, 3))
    scores[:1, 0] = scores[1:4, 1] = scores[4:6, 2] = 1.0
    schedule = fit_schedule(scores, 0.5, 0.0, method="qwyc")
    assert schedule.order.tolist() == [1, 2, 0]
    assert schedule.evaluate(scores)[1].tolist() == [3, 1, 1, 1, 2, 2, 3]


def test_qwyc_prefers_a_cheap_model_that_settles_fewer_rows() -> None:
    scores = np.array([[1.0, 1.0], [0.0, 1.0], [0.0, -1.0], [-1.0, -1.0]])
    dear_second = fit_schedule(scores, 0.5, 0.0, method="qwyc", costs=[1.0, 9.0])
    assert dear_second.order.tolist() == [0, 1]
    even = fit_schedule(scores, 0.5, 0.0, method="qwyc")
    assert even.order.tolist() == [1, 0]


@pytest.mark.parametrize("method", ["polydom", "qwyc", "fixed"])
@pytest.mark.parametrize("sides", ["both", "negative"])
@pytest.mark.parametrize(
    "alpha", [0.0, pytest.param(0.005, marks=pytest.mark.jit), 0.05]
)
def test_a_schedule_changes_at_most_alpha_of_the_rows_it_was_fitted_on(
    method: Any, sides: Any, alpha: float
) -> None:
    scores = noisy_votes(few(1000), 20)
    order: Any = np.arange(scores.shape[1]) if method == "fixed" else None
    schedule = fit_schedule(scores, 0.0, alpha, method=method, order=order, sides=sides)
    decisions, used = schedule.evaluate(scores)
    full = scores.sum(axis=1) >= 0
    assert np.mean(decisions != full) <= alpha
    assert used.mean() < 20
    if sides == "negative":
        assert (used[decisions] == 20).all()


@pytest.mark.jit
def test_fresh_rows_change_as_fitted_ones_and_take_fewer_base_models() -> None:
    """QWYC learns the fitted rows by heart: five times as many fresh ones change."""
    fitted: dict[str, tuple[Any, float]] = {
        "careful": ("polydom", 0.012),
        "bold": ("polydom", 0.02),
        "qwyc": ("qwyc", 0.005),
        "fixed": ("fixed", 0.005),
    }
    changed, mean = dict.fromkeys(fitted, 0.0), dict.fromkeys(fitted, 0.0)
    for seed in range(3):
        scores, fresh = np.split(noisy_votes(12_000, 40, seed), [4000])
        full = fresh.sum(axis=1) >= 0
        for name, (method, alpha) in fitted.items():
            order: Any = np.arange(scores.shape[1]) if method == "fixed" else None
            schedule = fit_schedule(scores, 0.0, alpha, method=method, order=order)
            decisions, used = schedule.evaluate(fresh)
            changed[name] += np.mean(decisions != full) / 3
            mean[name] += used.mean() / 3
    assert changed["careful"] < 2.5 * 0.012
    assert changed["qwyc"] > 5 * 0.005
    assert changed["careful"] < changed["qwyc"] < changed["bold"]
    ours = np.interp(
        changed["qwyc"],
        [changed["careful"], changed["bold"]],
        [mean["careful"], mean["bold"]],
    )
    assert ours < min(mean["qwyc"], mean["fixed"])


def test_threads_do_not_change_the_schedule() -> None:
    scores = noisy_votes(few(500), 30)
    for method in ("polydom", "qwyc"):
        one = fit_schedule(scores, 0.0, 0.01, method=method, threads=1)
        two = fit_schedule(scores, 0.0, 0.01, method=method, threads=2)
        for name in ("order", "lower", "upper"):
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


@given(drawn_scores(models=2), st.sampled_from([0.5, 1.0, 3.0, 100.0]), st.booleans())
def test_stopping_finds_the_cheapest_cuts_of_two_models(
    scores: Floats, price: float, both: bool
) -> None:
    costs = np.array([1.0, 2.0])
    sums = ScoreSums(scores, np.arange(2), scores.sum(axis=1) >= 0)
    stopping = Stopping(sums, costs=costs, both=both)
    mean, wrong = stopping.outcome(stopping.cuts(price, ALIKE))
    slow = cheapest_stop(scores, 0.0, costs, price, both)
    assert mean * len(scores) + price * len(wrong) == pytest.approx(slow)


@given(drawn_scores(models=4), st.sampled_from([0.5, 2.0, 10.0]))
def test_stopping_knows_what_its_thresholds_will_do(
    scores: Floats, price: float
) -> None:
    order, full = np.array([2, 0, 3, 1]), scores.sum(axis=1) >= 0
    stopping = Stopping(ScoreSums(scores, order, full), costs=np.ones(4))
    cuts = stopping.cuts(price, ALIKE)
    schedule = Schedule(order, *stopping.thresholds(cuts), 0.0)
    decisions, used = schedule.evaluate(scores)
    mean, wrong = stopping.outcome(cuts)
    assert mean == used.mean()
    assert wrong.tolist() == full[decisions != full].tolist()


def test_stopping_lists_rows_as_its_docstring_says() -> None:
    scores = np.array([[-1.0, 1.2], [0.5, -1.2], [-1.0, 1.2], [3.0, -1.2], [-2.0, 0.0]])
    positive = np.array([False, True, True, True, False])
    stopping = Stopping(ScoreSums(scores, np.arange(2), positive), costs=np.ones(2))
    assert stopping.ids[:5].tolist() == [4, 0, ~2, 1, 3]
    assert stopping.widest[:, 0].tolist() == [1, 3]
    assert stopping.ids[5:].tolist() == [0, ~2]
    assert stopping.starts.tolist() == [0, 5, 7]


def test_cheapest_cuts_of_the_five_rows_in_their_docstring() -> None:
    rows, values = np.array([4, 0, 2, 1, 3]), np.array([-2.0, -1.0, -1.0, 0.5, 3.0])
    ids = list_entries(rows, values)
    assert ids.tolist() == [4, 0, ~2, 1, 3]
    lows = np.array([0.0, 0.0, 10.0, 10.0, 10.0])
    onward = np.array([2.0, 2.0, 2.0, 2.0, np.nan])
    assert cheapest_cuts(ids, lows, 10.0 - lows, onward, True) == (1, 3)


@given(
    st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0]), min_size=1, max_size=8),
    st.data(),
    st.booleans(),
)
def test_no_other_cuts_cost_less_than_the_cheapest(
    chances: list[float], data: st.DataObject, both: bool
) -> None:
    size = len(chances)
    going = st.sampled_from([0.5, 1.0, 3.0, 5.0, np.nan])
    onward = data.draw(st.lists(going, min_size=size, max_size=size))
    tied = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    ids = np.array([~i if i and tied[i] else i for i in range(size)], np.int32)
    rare = data.draw(st.sampled_from([1.0, 4.0, 100.0]))  # price of a wrong low stop
    lows, highs = rare * np.array(chances), 4 * (1 - np.array(chances))

    def cost(a: int, b: int) -> float:
        here = [i for i in range(size) if onward[i] > 0]
        low = sum(lows[i] for i in here if i < a)
        high = sum(highs[i] for i in here if i >= b)
        return float(low + high + sum(onward[i] for i in here if a <= i < b))

    ends = [c for c in range(size + 1) if c in {0, size} or ids[c] >= 0]
    a, b = cheapest_cuts(ids, lows, highs, np.array(onward), both)
    assert {a, b} <= set(ends)
    allowed = [(c, d) for c in ends for d in ends if c <= d and (both or d == size)]
    assert cost(a, b) == pytest.approx(min(cost(c, d) for c, d in allowed))


@pytest.mark.jit
@pytest.mark.parametrize(
    ("rows", "near"), [(1, 1), (2, 2), (60, 20), (500, 25), (3000, 150), (7000, 300)]
)
def test_levels_are_what_the_neighbours_say(rows: int, near: int) -> None:
    draws = np.random.default_rng(rows)
    values = np.sort(draws.normal(size=rows)).round(1 if rows < 100 else 9)
    final = values + draws.normal(size=rows) * 0.3 * (1 + values**2)
    first, end = rows // 10, rows - rows // 20
    levels = np.full(rows, 255, np.uint8)
    fill_levels(values, final, 0.2, first, end, levels)
    assert (levels[:first] == 255).all()
    assert (levels[end:] == 255).all()
    places = np.linspace(values[first], values[end - 1], GRID)
    found = [level_of(values, final, 0.2, at, near) for at in places]
    slow = np.interp(values, places, found)
    np.testing.assert_allclose(levels[first:end], slow[first:end], atol=0.51)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.jit) for seed in (1, 2))]
)
def test_the_highest_price_lets_no_row_stop_wrongly(seed: int) -> None:
    """Even where neighbours say that what is right is likely to be wrong."""
    draws = np.random.default_rng(seed)
    scores = draws.normal(size=(300, 15)) * draws.pareto(1.5, size=15)
    sums = ScoreSums(scores, np.arange(15), scores.sum(axis=1) >= 0, 0.0)
    stopping = Stopping(sums, costs=np.ones(15))
    highest = float(stopping.penalties(1)[0])
    assert len(stopping.outcome(stopping.cuts(highest, ALIKE))[1]) == 0
    none = np.zeros(2, np.int64)
    assert len(stopping.outcome(stopping.cheapest(none))[1]) == 0


def test_a_level_holds_beyond_the_rows_that_agree() -> None:
    """No row is seen to end above, but its neighbours' gains would have carried it."""
    values = np.linspace(-3.0, -1.0, 100)
    final = values + np.tile([-0.9, 0.9], 50)
    assert (final < 0).all()
    levels = np.empty(100, np.uint8)
    fill_levels(values, final, 0.0, 0, 100, levels)
    assert (np.diff(levels.astype(int)) >= 0).all()
    assert levels[0] < 60 < 100 < levels[-1] < 128


def test_stopping_costs_no_more_with_each_pass() -> None:
    scores = noisy_votes(400, 12)
    sums = ScoreSums(scores, np.arange(12), scores.sum(axis=1) >= 0)
    stopping = Stopping(sums, costs=np.ones(12))
    totals = []
    for passes in range(5):
        mean, wrong = stopping.outcome(stopping.cuts(30.0, ALIKE, passes=passes))
        totals.append(mean * 400 + 30.0 * len(wrong))
    assert totals == sorted(totals, reverse=True)
    assert totals[1] < totals[0]


@given(drawn_scores(models=3), st.integers(-8, 8), st.sampled_from([-0.3, 0.0, 5.0]))
def test_impurity_agrees_with_counting_by_hand(
    scores: Floats, start: int, border: float
) -> None:
    left = ActiveExamples(scores, scores.sum(axis=1) >= 0)
    sums = np.full(len(scores), start / 4)
    least, most = sums.min() + scores.min(axis=0), sums.max() + scores.max(axis=0)
    out = np.empty(3)
    here = left.rows, sums, left.final, border
    measure_impurity(scores, *here, np.arange(3), least, most, out)
    slow = [
        impurity_after(
            sums, scores[left.rows, k], left.final, border, least[k], most[k], BINS
        )
        for k in range(3)
    ]
    np.testing.assert_allclose(out, slow, rtol=1e-6, atol=1e-9 * len(scores))


def test_few_endings_of_the_rarer_kind_are_no_certainty() -> None:
    """Gains that would carry a row across leave impurity where no row was carried."""
    draws = np.random.default_rng(0)
    first = draws.normal(size=4000)
    sure, noisy = np.zeros(4000), draws.normal(size=4000)
    impurity = {}
    for name, rest in (("sure", sure), ("noisy", noisy)):
        scores = np.stack([first - 4.0, rest], axis=1)
        out = np.empty(1)
        here = np.arange(4000), np.zeros(4000), scores.sum(axis=1), 0.0
        ends = scores[:, 0].min(), scores[:, 0].max()
        column = np.zeros(1, np.int64)
        measure_impurity(scores, *here, column, *np.array(ends)[:, None], out)
        impurity[name] = out[0]
    assert impurity["sure"] == 0.0
    assert 10.0 < impurity["noisy"] < 400.0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"scores": SCORES[0]}, r"shape \(2,\)"),
        ({"scores": SCORES[:0]}, r"shape \(0, 2\)"),
        ({"scores": SCORES * [1.0, np.nan]}, r"scores\[0, 1\] is nan"),
        ({"scores": SCORES * [1.0, np.inf]}, r"scores\[0, 1\] is inf"),
        ({"threshold": np.nan}, "threshold is nan"),
        ({"threshold": 9.0}, "all 5 rows are below the threshold 9"),
        ({"threshold": -9.0}, "all 5 rows are at or above the threshold -9"),
        ({"alpha": 1.0}, r"alpha is 1.0; it must be in \[0, 1\)"),
        ({"alpha": -0.1}, "alpha is -0.1"),
        ({"alpha": np.nan}, "alpha is nan"),
        ({"costs": [1.0]}, r"costs have shape \(1,\)"),
        ({"costs": [1.0, 0.0]}, r"costs\[1\] is 0.0"),
        ({"costs": [np.inf, 1.0]}, r"costs\[0\] is inf"),
        ({"method": "best"}, "method is 'best'"),
        ({"method": "fixed"}, "needs an order"),
        ({"method": "qwyc", "order": [0, 1]}, "chooses its own order"),
        ({"order": "natural"}, "order is 'natural'; whole numbers"),
        ({"order": [0, 0]}, "not a permutation of the 2 base models"),
        ({"sides": "upper"}, "sides is 'upper'"),
        ({"threads": 0}, "threads is 0"),
        ({"confidence": 0.95}, "needs calibration rows"),
        ({"confidence": 1.0, "calibration": SCORES}, "confidence is 1.0"),
        ({"calibration": SCORES}, "calibration rows are given without a confidence"),
        ({"groups": np.arange(5)}, "groups are given without a confidence"),
        (
            {"confidence": 0.95, "calibration": SCORES, "alpha": 0.01},
            "there are 3 .*; .* at least 299",
        ),
        ({"confidence": 0.95, "calibration": SCORES}, "alpha is 0"),
        (
            {"confidence": 0.95, "calibration": SCORES[:, :1], "alpha": 0.5},
            r"shape \(5, 1\)",
        ),
    ],
)
def test_fit_schedule_says_what_is_wrong_with_its_arguments(
    arguments: dict[str, Any], reason: str
) -> None:
    usual: dict[str, Any] = {"scores": SCORES, "threshold": 0.0, "alpha": 0.0}
    with pytest.raises(BadInput, match=reason):
        fit_schedule(**(usual | arguments))


def test_one_base_model_is_a_schedule_that_always_uses_it() -> None:
    scores = np.array([[-1.0], [1.0]])
    for method, order in (("polydom", None), ("qwyc", None), ("fixed", [0])):
        schedule = fit_schedule(scores, 0.0, 0.0, method=method, order=order)  # type: ignore[arg-type]
        decisions, used = schedule.evaluate(scores)
        assert (decisions.tolist(), used.tolist()) == ([False, True], [1, 1])


@given(drawn_class_scores(models=2), st.sampled_from([0.5, 1.0, 3.0, 100.0]))
def test_stopping_finds_the_cheapest_margin_of_two_models(
    scores: Floats, price: float
) -> None:
    chosen = scores.sum(axis=1).argmax(axis=1)
    sums = MarginSums(scores, np.arange(2), chosen, bias=np.zeros(scores.shape[2]))
    stopping = Stopping(sums, costs=np.array([1.0, 2.0]), both=False)
    alike = np.ones(scores.shape[2])
    mean, wrong = stopping.outcome(stopping.cuts(price, alike))
    margins = margins_of(scores[:, 0])
    best = math.inf
    for margin in [-1.0, *margins, math.inf]:
        stops = margins > margin
        errors = (scores[:, 0].argmax(axis=1) != chosen) & stops
        cost = 1.0 * len(scores) + 2.0 * (~stops).sum() + price * errors.sum()
        best = min(best, float(cost))
    assert mean * len(scores) + price * len(wrong) == pytest.approx(best)


@given(drawn_class_scores(models=3), st.integers(-4, 4))
def test_margin_impurity_agrees_with_counting_by_hand(
    scores: Floats, start: int
) -> None:
    classes = scores.shape[2]
    sums = np.full((len(scores), classes), 0.0)
    sums[:, 0] = start / 4
    chosen = (sums + scores.sum(axis=1)).argmax(axis=1)
    impurity = np.empty(3)
    measure_margin_impurity(
        scores, np.arange(len(scores)), sums, chosen, np.arange(3), impurity
    )
    slow = [
        margin_impurity(sums + scores[:, k], chosen.tolist(), MARGIN_BINS)
        for k in range(3)
    ]
    np.testing.assert_allclose(impurity, slow)


@pytest.mark.parametrize("alpha", [0.0, pytest.param(0.01, marks=pytest.mark.jit), 0.1])
def test_at_most_alpha_of_the_fitted_choices_change(alpha: float) -> None:
    scores = noisy_rounds(few(1000), 20)
    bias = np.array([0.1, 0.0, -0.1, 0.0])
    schedule = fit_margin_schedule(scores, alpha, bias=bias)
    choices, used = schedule.evaluate(scores)
    whole = whole_sums(scores, bias).argmax(axis=1)
    assert np.mean(choices != whole) <= alpha
    changed = schedule.changed(scores)
    np.testing.assert_array_equal(changed, whole[choices != whole])
    counts = np.bincount(whole, minlength=4)
    assert (np.bincount(changed, minlength=4) <= alpha * counts).all()
    assert used.mean() < 20


@pytest.mark.jit
def test_a_larger_alpha_takes_fewer_base_models_and_order_can_be_kept() -> None:
    scores = noisy_rounds(2000, 30)
    means = [
        fit_margin_schedule(scores, alpha).evaluate(scores)[1].mean()
        for alpha in (0.0, 0.01, 0.05)
    ]
    assert means == sorted(means, reverse=True)
    assert means[2] < 0.6 * means[0]
    kept = fit_margin_schedule(scores, 0.01, order=range(30))
    assert kept.order.tolist() == list(range(30))


def test_the_useful_base_model_comes_first() -> None:
    scores = noisy_rounds(2000, 6) * 0.1
    scores[:, 4] += noisy_rounds(2000, 1, seed=7)[:, 0] * 5
    assert fit_margin_schedule(scores, 0.01).order[0] == 4


def test_the_next_base_model_is_one_of_the_first_that_are_left() -> None:
    scores = noisy_rounds(500, AHEAD + 10) * 0.1
    scores[:, AHEAD] += noisy_rounds(500, 1, seed=7)[:, 0] * 5
    order = fit_margin_schedule(scores, 0.01).order.tolist()
    assert order.index(AHEAD) == 1
    left = list(range(AHEAD + 10))
    for model in order:
        assert left.index(model) < AHEAD
        left.remove(model)


@pytest.mark.jit
def test_features_are_opened_as_late_as_they_can_be() -> None:
    scores = noisy_rounds(2000, 20)
    uses = np.repeat(np.eye(2, dtype=np.bool_), 10, axis=0)
    schedule = fit_margin_schedule(
        scores, 0.02, costs=np.full(20, 1e-3), feature_costs=[50.0, 1.0], uses=uses
    )
    assert [s.features for s in cut_stages(schedule.order, uses)] == [(1,), (0,)]


@pytest.mark.jit
def test_a_calibrated_rate_holds_on_fresh_rows() -> None:
    rows = noisy_rounds(12_000, 20)
    schedule = fit_margin_schedule(
        rows[:3000], 0.02, confidence=0.95, calibration=rows[3000:6000]
    )
    assert schedule.promise is not None
    assert schedule.promise.bounds == (0.02,) * 4
    assert sum(schedule.promise.rows) == 3000
    assert len(schedule.changed(rows[6000:])) <= 0.02 * 6000
    assert schedule.evaluate(rows[6000:])[1].mean() < 20


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scores": np.zeros((3, 2))}, r"must be \(N, T, K\)"),
        ({"scores": np.zeros((3, 2, 1))}, r"must be \(N, T, K\)"),
        ({"scores": np.full((3, 2, 2), np.nan)}, r"scores\[0, 0, 0\] is nan"),
        ({"alpha": 1.0}, "alpha is 1.0"),
        ({"bias": [0.0]}, "one per class"),
        ({"order": [0, 0]}, "permutation of the 2"),
        ({"confidence": 0.9}, "needs calibration rows"),
        ({"calibration": np.zeros((9, 2, 2))}, "without a confidence"),
        ({"confidence": 0.9, "calibration": np.zeros((3, 2, 2))}, "needs at least 22"),
        ({"confidence": 0.9, "calibration": np.zeros((50, 3, 2))}, r"\(N, 2, 2\)"),
    ],
)
def test_what_cannot_be_fitted(changes: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"scores": np.ones((3, 2, 2)), "alpha": 0.1} | changes
    with pytest.raises(BadInput, match=message):
        fit_margin_schedule(**arguments)
