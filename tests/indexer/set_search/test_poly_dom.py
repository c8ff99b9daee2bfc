import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import get_args

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from polydom.features.errors import BadInput
from polydom.indexer.index.quality import AlphaOf
from polydom.indexer.set_search import poly_dom, sandwich
from polydom.indexer.set_search.poly_dom import PolyDomSearch
from tests.support.examples import few
from tests.support.oracles.set_search import count_open, expand_lattice, smallest_alpha

ALPHAS = st.sampled_from([1.0, 1.01, 1.1, 1.5, 2.0])
TOLERANCES = st.sampled_from([0.0, 0.0, 0.05, 0.3])
ALPHA_OF = st.sampled_from(get_args(AlphaOf))


def subsets(mask: int) -> Iterator[int]:
    part = mask
    while True:
        yield part
        if part == 0:
            return
        part = (part - 1) & mask


def monotone(accuracies: list[float]) -> list[float]:
    return [
        max(accuracies[s] for s in subsets(mask)) for mask in range(len(accuracies))
    ]


@st.composite
def monotone_accuracies(draw: st.DrawFn, most: int = 5) -> list[float]:
    m = draw(st.integers(1, most))
    coarse = st.sampled_from([0.0, 0.25, 0.5, 0.6, 0.75, 1.0])
    fine = st.floats(0, 1)
    values = st.lists(coarse | fine, min_size=1 << m, max_size=1 << m)
    return monotone(draw(values))


@st.composite
def coverage_accuracies(draw: st.DrawFn) -> list[float]:
    """Share of points that some feature of the set covers: diminishing returns."""
    m = draw(st.integers(1, 5))
    covered = draw(st.lists(st.integers(0, 255), min_size=m, max_size=m))
    unions = [0]
    for points in covered:
        unions += [union | points for union in unions]
    return [union.bit_count() / 8 for union in unions]


def features(accuracies: list[float]) -> int:
    return len(accuracies).bit_length() - 1


def origin_of(alpha_of: AlphaOf, accuracies: list[float]) -> float:
    return accuracies[0] if alpha_of == "gain" else 0.0


def assert_guaranteed(search: PolyDomSearch, accuracies: list[float]) -> None:
    """Every set has an expanded subset, so one that costs no more, within alpha."""
    origin = origin_of(search.alpha_of, accuracies)
    for mask, accuracy in enumerate(accuracies):
        best = max(search.expanded.get(s, -1.0) for s in subsets(mask))
        assert search.alpha * (best - origin) >= accuracy - origin - 1e-12


def test_icsp_example_expands_fourteen_of_sixteen_sets_at_alpha_one() -> None:
    # The lattice of ICSP, section 3.1, in the shape its text describes: two sets of
    # the middle layer are sandwiched between {f4} and {f1, f2, f4}-like pairs.
    single = [0.6, 0.6, 0.65, 0.8]
    top = {0b0111: 0.75, 0b1011: 0.8, 0b1101: 0.85, 0b1110: 0.85, 0b1111: 0.9}

    def accuracy(mask: int) -> float:
        if mask in top:
            return top[mask]
        values = [single[f] for f in range(4) if mask >> f & 1]
        return max(values, default=0.5) + 0.01 * (len(values) == 2 and mask < 8)

    search = poly_dom.search(4, accuracy)
    assert set(range(16)) - set(search.expanded) == {0b1001, 0b1010}


@pytest.mark.parametrize("m", [1, 2, 3])
def test_search_trains_only_both_ends_when_features_add_nothing(m: int) -> None:
    assert dict(poly_dom.search(m, lambda mask: 0.5).expanded) == {
        0: 0.5,
        (1 << m) - 1: 0.5,
    }


def test_search_trains_the_empty_set_first_and_the_full_set_second() -> None:
    asked: list[int] = []

    def accuracy(mask: int) -> float:
        asked.append(mask)
        return mask / 8

    poly_dom.search(3, accuracy)
    assert asked[:2] == [0, 7]


def test_search_keeps_xor_features_that_are_worthless_alone() -> None:
    search = poly_dom.search(4, lambda mask: 1.0 if mask & 3 == 3 else 0.5)
    assert search.expanded[0b0011] == 1.0


def test_covering_overlooks_xor_features_as_documented() -> None:
    search = poly_dom.search(
        4, lambda mask: 1.0 if mask & 3 == 3 else 0.5, covering=True
    )
    assert 0b0011 not in search.expanded


@given(accuracies=coverage_accuracies(), alpha=ALPHAS, of=ALPHA_OF)
def test_covering_keeps_the_guarantee_under_diminishing_returns(
    accuracies: list[float], alpha: float, of: AlphaOf
) -> None:
    m = features(accuracies)
    search = poly_dom.search(
        m, accuracies.__getitem__, alpha=alpha, alpha_of=of, covering=True
    )
    assert_guaranteed(search, accuracies)


def test_covering_trains_fewer_sets_when_small_gains_add_up_to_little() -> None:
    def accuracy(mask: int) -> float:
        return 0.8 if mask & 1 else 0.0 + 0.2 * (mask.bit_count() > 1)

    def total(mask: int) -> float:
        return 0.6 + 0.3 * (mask & 1) + 0.001 * (mask >> 1).bit_count()

    plain = poly_dom.search(6, total, alpha=1.005, alpha_of="accuracy")
    covering = poly_dom.search(
        6, total, alpha=1.005, alpha_of="accuracy", covering=True
    )
    assert len(covering.expanded) < len(plain.expanded)
    assert accuracy(1) == 0.8


@given(
    accuracies=monotone_accuracies(4),
    alpha=ALPHAS,
    tolerance=TOLERANCES,
    of=ALPHA_OF,
)
def test_search_expands_what_comparing_all_pairs_expands(
    accuracies: list[float], alpha: float, tolerance: float, of: AlphaOf
) -> None:
    m = features(accuracies)
    search = poly_dom.search(
        m, accuracies.__getitem__, alpha=alpha, tolerance=tolerance, alpha_of=of
    )
    assert set(search.expanded) == expand_lattice(
        m, accuracies, alpha, tolerance, origin_of(of, accuracies)
    )


@given(accuracies=monotone_accuracies(), alpha=ALPHAS, of=ALPHA_OF)
def test_search_keeps_the_guarantee_when_accuracy_is_monotone(
    accuracies: list[float], alpha: float, of: AlphaOf
) -> None:
    m = features(accuracies)
    assert_guaranteed(
        poly_dom.search(m, accuracies.__getitem__, alpha=alpha, alpha_of=of),
        accuracies,
    )


@given(losses=monotone_accuracies(4), alpha=ALPHAS)
def test_alpha_of_gains_in_likelihood_holds_for_gains_in_log_loss(
    losses: list[float], alpha: float
) -> None:
    """Quality is exp(-log loss); the loss falls by at most alpha times as much."""
    losses = [3.0 * (1.0 - loss) for loss in losses]
    search = poly_dom.search(
        features(losses), lambda mask: math.exp(-losses[mask]), alpha=alpha
    )
    for mask, loss in enumerate(losses):
        best = min(losses[s] for s in subsets(mask) if s in search.expanded)
        assert alpha * (losses[0] - best) >= losses[0] - loss - 1e-9


def test_alpha_of_gains_trains_where_the_prior_is_nearly_right() -> None:
    """No set is 1.05 times as accurate as the prior, yet some gain 20 points of 100."""

    def accuracy(mask: int) -> float:
        return 0.88 + 0.006 * mask.bit_count()

    by_accuracy = poly_dom.search(5, accuracy, alpha=1.05, alpha_of="accuracy")
    assert set(by_accuracy.expanded) == {0, 31}
    assert len(poly_dom.search(5, accuracy, alpha=1.05).expanded) == 32


@given(
    accuracies=monotone_accuracies(),
    noise=st.lists(st.floats(0, 0.1), min_size=32, max_size=32),
    alpha=ALPHAS,
)
def test_search_keeps_the_guarantee_when_losses_stay_within_the_tolerance(
    accuracies: list[float], noise: list[float], alpha: float
) -> None:
    noisy = [a * 0.9 + e for a, e in zip(accuracies, noise, strict=False)]
    search = poly_dom.search(
        features(noisy), noisy.__getitem__, alpha=alpha, tolerance=0.1 + 1e-12
    )
    assert_guaranteed(search, noisy)


@given(
    accuracies=monotone_accuracies(), alpha=ALPHAS, tolerance=TOLERANCES, of=ALPHA_OF
)
def test_sparse_search_expands_what_the_dense_one_expands(
    accuracies: list[float], alpha: float, tolerance: float, of: AlphaOf
) -> None:
    m = features(accuracies)

    def search() -> PolyDomSearch:
        return poly_dom.search(
            m, accuracies.__getitem__, alpha=alpha, tolerance=tolerance, alpha_of=of
        )

    dense = search()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sandwich, "DENSE_FEATURES", 0)
        sparse = search()
    assert dict(sparse.expanded) == dict(dense.expanded)


def test_search_over_sixty_two_features_finishes_where_alpha_is_wide_enough() -> None:
    single = [0.6 + f / 205 for f in range(62)]

    def accuracy(mask: int) -> float:
        return max((single[f] for f in range(62) if mask >> f & 1), default=0.5)

    search = poly_dom.search(62, accuracy, alpha=4.5)
    full = (1 << 62) - 1
    assert search.complete
    assert set(search.expanded) == {0, full, *(1 << f for f in range(62))}


def test_search_over_many_features_stops_at_its_budget_with_a_true_bound() -> None:
    def accuracy(mask: int) -> float:
        return 0.5 + mask.bit_count() / 80

    search = poly_dom.search(40, accuracy, budget=300)
    assert len(search.expanded) == 300
    assert not search.complete
    assert 2.0 < search.alpha <= 40.0 * (1 + 1e-12)
    assert poly_dom.search(40, accuracy, budget=9).alpha == math.inf


@given(accuracies=monotone_accuracies(), alpha=ALPHAS, tolerance=TOLERANCES)
def test_trained_sets_close_each_untrained_set(
    accuracies: list[float], alpha: float, tolerance: float
) -> None:
    m = features(accuracies)
    search = poly_dom.search(
        m, accuracies.__getitem__, alpha=alpha, tolerance=tolerance
    )
    gains = {s: a - accuracies[0] for s, a in search.expanded.items()}
    for mask in set(range(1 << m)) - set(search.expanded):
        lower = max(a for s, a in gains.items() if s & ~mask == 0)
        upper = min(a for s, a in gains.items() if mask & ~s == 0)
        assert alpha * lower >= upper + tolerance


@given(
    accuracies=monotone_accuracies(4),
    budget=st.integers(2, 17),
    tolerance=TOLERANCES,
    of=ALPHA_OF,
)
@example([1e-300, 1e-300, 1e-300, 0.75], 2, 0.3, "accuracy")
@example([0.5, 0.5, 0.5, 0.75], 2, 0.0, "gain")
def test_search_under_a_budget_reports_a_bound_that_holds(
    accuracies: list[float], budget: int, tolerance: float, of: AlphaOf
) -> None:
    m = features(accuracies)
    asked: list[int] = []

    def accuracy(mask: int) -> float:
        asked.append(mask)
        return accuracies[mask]

    search = poly_dom.search(
        m, accuracy, budget=budget, tolerance=tolerance, alpha_of=of
    )
    assert sorted(asked) == list(search.expanded)
    assert len(asked) <= budget
    if math.isfinite(search.alpha):
        assert_guaranteed(search, accuracies)
    if not search.complete:
        origin = origin_of(of, accuracies)
        smallest = smallest_alpha(m, search.expanded, tolerance, origin)
        assert search.alpha <= smallest * (1 + 1e-12)
    else:
        assert search.alpha == 1.0


def test_search_under_a_budget_finishes_large_alphas_first() -> None:
    def accuracy(mask: int) -> float:
        return 1 - 0.5 * 0.7 ** mask.bit_count()

    alphas = [poly_dom.search(8, accuracy, budget=b).alpha for b in (2, 40, 150, 256)]
    assert alphas == sorted(alphas, reverse=True)
    assert alphas[0] == math.inf
    assert 1 < alphas[2] < 2 < alphas[1] < 4
    assert alphas[-1] == 1.0


def test_search_under_a_budget_in_seconds_stops_after_the_training_under_way() -> None:
    seconds = itertools.count()
    search = poly_dom.search(
        6, lambda mask: mask / 64, budget_s=10, now=lambda: next(seconds)
    )
    assert len(search.expanded) == 10
    assert not search.complete


def test_search_interrupted_returns_what_is_finished() -> None:
    def accuracy(mask: int) -> float:
        if mask == 0b100:
            raise KeyboardInterrupt
        return mask.bit_count() / 8

    search = poly_dom.search(6, accuracy, budget_s=math.inf)
    assert 0b010 in search.expanded
    assert 0b100 not in search.expanded
    assert not search.complete
    assert search.alpha == math.inf
    with pytest.raises(KeyboardInterrupt):
        poly_dom.search(6, accuracy)


def test_search_takes_batches_of_one_size_and_reports_progress() -> None:
    sizes: list[set[int]] = []
    steps: list[tuple[int, int | None]] = []

    def accuracy(masks: list[int]) -> Iterable[float]:
        sizes.append({mask.bit_count() for mask in masks})
        return (mask / 8 for mask in masks)

    poly_dom.search(
        3,
        accuracy,
        batch=True,
        progress=lambda done, left: steps.append((done, left)),
    )
    assert sizes == [{0}, {3}, {1}, {2}]
    assert steps == [(done, 8 - done) for done in range(1, 9)]


@given(
    draws=st.lists(st.floats(0, 1), min_size=32, max_size=32),
    alpha=st.sampled_from([1.0, 1.1, 1.5]),
    tolerance=st.sampled_from([0.0, 0.05]),
    budget=st.sampled_from([None, 7]),
)
def test_search_tells_how_many_trainings_there_can_be_at_most(
    draws: list[float], alpha: float, tolerance: float, budget: int | None
) -> None:
    """Those that nothing sandwiches before a part of a layer, or the budget."""
    m, trained, told = 5, dict[int, float](), list[tuple[int, int | None]]()
    parts: list[int] = []

    def accuracy(masks: list[int]) -> Iterable[float]:
        most = count_open(trained, m, alpha, tolerance)
        left = most if budget is None else min(most, budget - len(trained))
        parts.extend(range(left - 1, left - 1 - len(masks), -1))
        for mask in masks:
            trained[mask] = draws[mask]
            yield draws[mask]

    poly_dom.search(
        m,
        accuracy,
        alpha=alpha,
        tolerance=tolerance,
        budget=budget,
        batch=True,
        progress=lambda done, left: told.append((done, left)),
    )
    assert told == list(enumerate(parts, start=1))
    ends = [done + (left or 0) for done, left in told]
    assert ends == sorted(ends, reverse=True)
    assert ends[-1] >= len(trained)


def test_search_of_many_features_tells_no_more_than_it_knows() -> None:
    """With more than 24 features only a budget bounds the trainings."""

    def left_by(budget: int | None) -> list[int | None]:
        told: list[int | None] = []
        poly_dom.search(
            25,
            lambda mask: min(mask.bit_count(), 1),
            budget=budget,
            progress=lambda _, left: told.append(left),
        )
        return told

    assert left_by(None) == [None] * 27
    assert left_by(10) == [*range(9, -1, -1)]


@pytest.mark.parametrize(
    ("accuracy", "message"),
    [
        (lambda masks: [0.5] * (len(masks) + 1), "more values than the 1"),
        (lambda masks: [], "no value for set 0"),
    ],
    ids=["too many values", "too few values"],
)
def test_search_refuses_a_batch_of_the_wrong_length(
    accuracy: Callable[[list[int]], list[float]], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        poly_dom.search(3, accuracy, batch=True)


def test_violations_are_counted_and_measured() -> None:
    values = [0.5, 0.6, 0.7, 0.55, 0.5, 0.6, 0.7, 0.65]
    violations = poly_dom.search(3, values.__getitem__, tolerance=0.2).violations
    assert violations.pairs == 12 + 6 + 1
    # {f1, f2} loses 0.05 to {f1} and 0.15 to {f2}; the full set 0.05 to {f2}
    # and to {f2, f3}
    assert violations.count == 4
    assert violations.largest == pytest.approx(0.15)
    assert violations.quantile(0.5) == pytest.approx(0.05, abs=2e-4)
    assert violations.quantile(1.0) == violations.largest


def test_violations_are_none_when_accuracy_is_monotone() -> None:
    violations = poly_dom.search(4, lambda mask: mask.bit_count() / 8).violations
    assert violations.count == 0
    assert violations.largest == violations.quantile(0.95) == 0.0


@given(values=st.lists(st.floats(0, 0.99), min_size=16, max_size=16))
def test_violations_report_the_tolerance_that_covers_them(values: list[float]) -> None:
    search = poly_dom.search(4, values.__getitem__, tolerance=1.0)
    losses = [values[s] - values[mask] for mask in range(16) for s in subsets(mask)]
    assert len(search.expanded) == 16
    assert search.violations.largest == max(losses)
    assert search.violations.count == sum(loss > 0 for loss in losses)


@pytest.mark.parametrize("m", [0, -1, 63])
def test_search_refuses_a_number_of_features_out_of_range(m: int) -> None:
    with pytest.raises(BadInput, match="must be 1 to 62 features"):
        poly_dom.search(m, lambda mask: 0.5)


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan])
def test_search_refuses_an_accuracy_out_of_range(value: float) -> None:
    with pytest.raises(BadInput, match="accuracy of set 3 is"):
        poly_dom.search(2, lambda mask: value if mask == 3 else 0.5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": 0.99}, r"alpha is 0\.99"),
        ({"alpha": math.nan}, "alpha is nan"),
        ({"tolerance": -0.1}, r"tolerance is -0\.1"),
        ({"budget": 1}, r"budget is 1 trainings.*empty and the full set"),
        ({"budget": 2.5}, r"budget is 2\.5 trainings"),
        ({"budget_s": 0.0}, r"budget_s is 0\.0"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_search_refuses_arguments_out_of_range(
    arguments: dict[str, float], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        poly_dom.search(3, lambda mask: 0.5, **arguments)  # type: ignore[arg-type]


@pytest.mark.jit
@settings(max_examples=few(5))
@given(seed=st.integers(0, 1000))
def test_search_over_sixteen_features_expands_each_set_once(seed: int) -> None:
    draw = np.random.default_rng(seed)
    single = np.sort(draw.uniform(0.3, 0.9, 16))
    asked: list[int] = []

    def accuracy(mask: int) -> float:
        asked.append(mask)
        best = [single[f] for f in range(16) if mask >> f & 1][-2:]
        return float(1 - np.prod([1 - a for a in best]))

    search = poly_dom.search(16, accuracy)
    assert len(asked) == len(set(asked)) == len(search.expanded) < 1 << 14
