"""What a planner reads of an index: costs of all candidates, and their order."""

import pytest

from polydom.features.costs.polynomials import cost_at
from polydom.features.sizes import Size
from polydom.indexer.index.index import Index
from polydom.server.engine.planning.index_terms import COSTED, rank, remember_costs
from tests.support.indexes.served import make_index, make_pair_index


@pytest.mark.parametrize(
    ("index", "sizes"),
    [
        # more than are kept, and then the first again
        (make_index(), (*map(float, range(1, 2 * COSTED)), 1.0)),
        (make_pair_index(), (*((k, 1 + k % 7) for k in range(1, 2 * COSTED)), (1, 2))),
    ],
    ids=["sizes", "pairs"],
)
def test_costs_of_all_candidates_are_those_of_each(
    index: Index, sizes: tuple[Size, ...]
) -> None:
    costs = remember_costs(index)
    for size in sizes:
        each = [cost_at(curve, size) for curve in index.coefficients.tolist()]
        assert costs(size) == each


def test_candidates_are_ranked_by_quality() -> None:
    index = make_index()
    assert [one.row for one in rank(index, parts=True)] == [3, 2, 1, 0]
    assert [one.quality for one in rank(index, parts=False)] == [0.95, 0.8, 0.7, 0.5]
