"""What a candidate costs once some features are computed, against a slow twin."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.costs.polynomials import cost_at
from polydom.server.engine.planning.rest import RestCosts
from tests.support.indexes.served import make_pair_index
from tests.support.oracles.rest import best_quality, rest_cost
from tests.support.planners import INDEX

PAIRS = make_pair_index()


@given(
    st.integers(0, 7),
    st.integers(0, 1),
    st.booleans(),
    st.integers(0, 7),
    st.floats(0, 0.012),
    st.sampled_from([0.0, 0.7, 0.75, 0.95, 0.99]),
    st.booleans(),
)
def test_the_best_of_the_rest_is_that_of_a_slow_twin(
    computed: int,
    run: int,
    exact: bool,
    withheld: int,
    left: float,
    least: float,
    pair: bool,
) -> None:
    index, size = (PAIRS, (20.0, 3.0)) if pair else (INDEX, 100.0)
    assert index.package is not None
    rests = RestCosts(index.package, index.qualities)
    costs = rests.of_candidates(size, computed, run, exact=exact)
    cost = partial(
        rest_cost, index.package, size=size, computed=computed, run=run, exact=exact
    )
    slow = [cost(row) for row in range(len(costs))]
    assert costs == pytest.approx(slow)
    row, cheapest = rests.best(costs, left, withheld, least)
    qualities = index.qualities.tolist()
    found = partial(best_quality, index.package, qualities, costs.__getitem__)
    assert (qualities[row] if row >= 0 else -1.0) == found(left, withheld, least)
    able = found(np.inf, withheld, least) >= 0
    assert (cheapest >= 0) == able
    if able:
        assert found(costs[cheapest], withheld, least) >= 0
        below = np.nextafter(costs[cheapest], -1.0)
        assert found(below, withheld, least) == -1.0
    ready = rests.ready(computed)
    assert not int(index.package.masks[ready]) & ~computed
    assert qualities[ready] == max(
        qualities[r]
        for r, m in enumerate(index.package.masks)
        if not int(m) & ~computed
    )


def test_a_feature_costs_itself_and_the_steps_that_have_not_run() -> None:
    assert INDEX.package is not None
    rests = RestCosts(INDEX.package, INDEX.qualities)
    costs = [
        rests.of_feature(feature, 100.0, run) for feature in range(3) for run in (0, 1)
    ]
    assert costs == pytest.approx([1e-3, 1e-3, 4e-3, 3e-3, 5e-3, 4e-3])
    for features in range(8):
        alone = [costs[2 * k] for k in range(3) if features >> k & 1]
        assert cost_at(rests.curve_of(features), 100.0) == pytest.approx(sum(alone))
