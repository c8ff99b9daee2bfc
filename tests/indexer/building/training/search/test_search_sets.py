"""The project's search, and what it leaves to be indexed and served."""

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.indexer.building.project_tables.search import Search
from polydom.indexer.building.training.search.search_sets import (
    LAMBDAS,
    SearchedSets,
    search_sets,
)
from polydom.indexer.index.index import Index
from polydom.indexer.progress import Silence
from polydom.indexer.set_search.feature_order import prefixes
from polydom.indexer.set_search.greedy import search_greedy
from tests.support.builds.known_sets import KnownSets

M = 4
COSTS = [1.0, 2.0, 4.0, 8.0]
SINGLE = [0.1, 0.3, 0.35, 0.6]
SIZES = (1.0, 9.0)


def cost_of(mask: int) -> float:
    return sum(c for f, c in enumerate(COSTS) if mask >> f & 1)


def accuracy(mask: int) -> float:
    return 1 - math.prod(1 - a for f, a in enumerate(SINGLE) if mask >> f & 1)


def search(method: str, **terms: float) -> SearchedSets:
    asked = Search(method=method, **terms)  # type: ignore[arg-type]
    return search_sets(asked, M, KnownSets(accuracy), Silence(), cost_of)


def curves(masks: tuple[int, ...]) -> np.ndarray:
    """Cost is the features' costs times the size."""
    return np.array([[0.0, cost_of(mask)] for mask in masks])


def test_search_by_poly_dom_keeps_its_promise_and_says_so() -> None:
    found = search("poly-dom", alpha=1.5)
    assert found.facts["method"] == "poly-dom"
    assert found.facts["alpha"] == 1.5
    assert found.facts["expanded"] == len(found.qualities) == len(found.sets)
    for mask in range(1 << M):
        subsets = [a for s, a in found.qualities.items() if s & ~mask == 0]
        assert 1.5 * max(subsets) >= accuracy(mask)


@pytest.mark.parametrize("method", ["progressive", "poly-dom"])
def test_alpha_is_of_gains_unless_the_project_says_of_accuracy(method: str) -> None:
    def nearly(mask: int) -> float:
        return 0.9 + accuracy(mask) / 10

    asked = [Search(method=method, alpha=1.1)]  # type: ignore[arg-type]
    asked.append(msgspec.structs.replace(asked[0], alpha_of="accuracy"))
    of_gain, of_accuracy = (
        search_sets(one, M, KnownSets(nearly), Silence(), cost_of) for one in asked
    )
    assert of_gain.facts["alpha_of"] == "gain"
    for mask in range(1 << M):
        gains = [a - 0.9 for s, a in of_gain.qualities.items() if s & ~mask == 0]
        assert 1.1 * max(gains) >= nearly(mask) - 0.9 - 1e-12
    assert of_accuracy.facts["alpha_of"] == "accuracy"
    assert len(of_accuracy.sets) < len(of_gain.sets)


@pytest.mark.parametrize("method", LAMBDAS)
def test_search_by_greedy_indexes_what_its_sequences_pass(method: str) -> None:
    found = search(method)
    expected = search_greedy(M, accuracy, cost_of, lambdas=LAMBDAS[method])
    assert found.sequences == tuple(s.features for s in expected.sequences)
    assert dict(found.qualities) == expected.expanded
    assert found.facts["sequences"] == len(expected.sequences)
    passed = {m for s in expected.sequences for m in prefixes(s.features)}
    assert found.sets == tuple(sorted(passed))


def test_search_by_greedy_cost_computes_the_cheapest_first() -> None:
    found = search("greedy-cost")
    assert found.facts["lambdas"] == [None]
    kept = found.keep(curves(found.sets), SIZES)
    masks = [found.sets[row] for row in kept]
    orders, fallbacks = found.order(masks, cost_of)
    assert orders == ((), (0,), (0, 1), (0, 1, 2), (0, 1, 2, 3))
    assert fallbacks[-1] == (0, 1, 2, 3, 4)


@given(
    accuracies=st.lists(st.integers(0, 9), min_size=16, max_size=16),
    costs=st.lists(st.integers(1, 9), min_size=M, max_size=M),
    method=st.sampled_from(["progressive", "poly-dom", *LAMBDAS]),
    size=st.floats(*SIZES),
    budget=st.floats(0, 300),
)
def test_search_keeps_the_best_for_every_size_and_budget(
    accuracies: list[int], costs: list[int], method: str, size: float, budget: float
) -> None:
    known = KnownSets(lambda mask: accuracies[mask] / 9)

    def price(mask: int) -> float:
        return float(sum(c for f, c in enumerate(costs) if mask >> f & 1))

    asked = Search(method=method)  # type: ignore[arg-type]
    found = search_sets(asked, M, known, Silence(), price)
    table = np.array([[0.0, price(mask)] for mask in found.sets])
    kept = found.keep(table, SIZES)
    masks = [found.sets[row] for row in kept]
    orders, fallbacks = found.order(masks, price)
    gains = [found.qualities[mask] for mask in masks]
    best = Index.from_candidates(table[kept], gains, SIZES).best(size, budget)
    fits = [m for m in found.sets if price(m) * size <= budget]
    assert best.quality == max(found.qualities[mask] for mask in fits)
    for mask, order, answers in zip(masks, orders, fallbacks, strict=True):
        assert prefixes(order)[-1] == mask
        for done, answer in zip(prefixes(order), answers, strict=True):
            within = [g for g, m in zip(gains, masks, strict=True) if m & ~done == 0]
            assert gains[answer] == max(within)
        if found.sequences:
            assert any(sequence[: len(order)] == order for sequence in found.sequences)


@given(
    st.lists(st.integers(0, 4), min_size=1 << M, max_size=1 << M),
    st.lists(st.integers(1, 9), min_size=M, max_size=M),
)
def test_what_is_kept_was_likely_where_models_cost_about_the_same(
    tenths: list[int], costs: list[int]
) -> None:
    sets = tuple(range(1 << M))
    found = SearchedSets({m: tenths[m] / 10 for m in sets}, sets, (), {})
    features = [sum(c for f, c in enumerate(costs) if m >> f & 1) for m in sets]
    # a model's time, up to 0.9 of what the cheapest feature costs
    models = [0.9 * (m % 3) / 2 for m in sets]
    curves = np.array([[c + t] for c, t in zip(features, models, strict=True)])
    curves[0] = 0.0
    kept = {sets[row] for row in found.keep(curves, SIZES)}
    assert kept - {0} <= set(found.likely_kept())


@pytest.mark.parametrize("method", LAMBDAS)
def test_all_that_greedy_keeps_was_likely_whatever_models_cost(method: str) -> None:
    found = search(method)
    assert found.likely_kept() == [*found.sets]
