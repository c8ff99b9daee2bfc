"""Sets that no trained subset closes at its total cost, beside a slow twin."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.indexer.index.quality import AlphaOf
from polydom.indexer.set_search.slow_models import open_sets
from tests.support.oracles import set_search as oracle

STEPS = st.integers(0, 8)


@given(data=st.data(), m=st.integers(1, 4))
def test_open_sets_are_those_that_no_pair_closes(data: st.DataObject, m: int) -> None:
    count = 1 << m

    def drawn() -> list[float]:
        return [
            step / 8
            for step in data.draw(st.lists(STEPS, min_size=count, max_size=count))
        ]

    accuracies, least, models = drawn(), drawn(), drawn()
    kept = data.draw(st.sets(st.integers(0, count - 1))) | {0, count - 1}
    qualities = {mask: accuracies[mask] for mask in kept}
    totals = {mask: least[mask] + models[mask] - 0.5 for mask in sorted(kept)}
    alpha = data.draw(st.sampled_from([1.0, 1.05, 2.0]))
    tolerance = data.draw(st.sampled_from([0.0, 0.125]))
    of: AlphaOf = data.draw(st.sampled_from(["gain", "accuracy"]))
    found = open_sets(
        qualities,
        np.array([*totals.values()]),
        np.array(least),
        alpha=alpha,
        alpha_of=of,
        tolerance=tolerance,
    ).tolist()
    origin = accuracies[0] if of == "gain" else 0.0
    assert len(found) == len(set(found))
    assert set(found) == oracle.open_at_total_costs(
        qualities, totals, least, alpha, tolerance, origin
    )


@pytest.mark.parametrize(("total", "hidden"), [(0.5, []), (0.6, [3])])
def test_subset_of_exactly_the_least_cost_closes(
    total: float, hidden: list[int]
) -> None:
    found = open_sets(
        {0: 0.5, 1: 0.9, 2: 0.5, 4: 0.5, 6: 0.5, 7: 0.9},
        np.array([0.0, total, 0.1, 0.1, 0.1, 0.5]),
        np.array([0.0, 0.1, 0.1, 0.4, 0.1, 0.5, 0.1, 0.6]) + 0.1,
        alpha=1.0,
        alpha_of="gain",
        tolerance=0.0,
    )
    assert found.tolist() == hidden


def test_sets_that_promise_most_come_first_then_the_cheapest() -> None:
    found = open_sets(
        {0: 0.5, 3: 0.7, 7: 0.9},
        np.zeros(3),
        np.array([0.0, 0.2, 0.1, 0.0, 0.3, 0.6, 0.5, 0.0]),
        alpha=1.0,
        alpha_of="accuracy",
        tolerance=0.0,
    )
    assert found.tolist() == [4, 6, 5, 2, 1]
