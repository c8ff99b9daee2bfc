"""Orders of features by what they gain, of which only the likely ones are measured."""

from hypothesis import given
from hypothesis import strategies as st

from polydom.indexer.set_search.lazy_greedy import order_by_gain
from tests.support.known_sets import KnownSets
from tests.support.oracles import set_search as oracle

M = 7


def order(
    covers: list[set[int]], costs: list[int], per_cost: bool, most: int = 10**9
) -> tuple[tuple[int, ...], KnownSets]:
    """Order features that each cover some of 20 items: returns diminish."""

    def accuracy(mask: int) -> float:
        covered = set().union(*(c for f, c in enumerate(covers) if mask >> f & 1))
        return len(covered) / 20

    def cost_of(mask: int) -> float:
        return float(sum(c for f, c in enumerate(costs) if mask >> f & 1))

    known = KnownSets(accuracy)
    found = order_by_gain(
        len(covers),
        known.qualities,
        cost_of,
        known={0: accuracy(0)},
        per_cost=per_cost,
        is_over=lambda: len(known.asked) >= most,
        on_trained=lambda: None,
    )
    if most == 10**9:
        assert found == oracle.greedy_order(
            len(covers), accuracy, cost_of, per_cost=per_cost
        )
    return found, known


COVERS = st.lists(st.sets(st.integers(0, 19)), min_size=1, max_size=M)
COSTS = st.lists(st.integers(0, 9), min_size=M, max_size=M)


@given(covers=COVERS, costs=COSTS, per_cost=st.booleans())
def test_order_is_greedys_where_returns_diminish(
    covers: list[set[int]], costs: list[int], per_cost: bool
) -> None:
    found, known = order(covers, costs, per_cost)
    assert len(set(known.asked)) == len(known.asked)
    m = len(covers)
    assert len(known.asked) <= m * (m + 1) // 2
    assert len(set(found)) == len(found) <= m


def test_order_measures_few_of_many() -> None:
    covers = [set(range(20)) - {f} if f < 2 else {f % 20} for f in range(40)]
    found, known = order(covers, [1] * 40, per_cost=False)
    assert found == (0, 1)  # 0 lacks item 0 alone, which 1 covers
    assert len(known.asked) < 2 * 40 + 10


def test_order_puts_the_cheaper_first_for_its_cost() -> None:
    covers, costs = [{0, 1, 2, 3}, {4, 5, 6}], [8, 1]
    assert order(covers, costs, per_cost=False)[0] == (0, 1)
    assert order(covers, costs, per_cost=True)[0] == (1, 0)


def test_order_leaves_out_what_gains_nothing() -> None:
    assert order([{1}, set(), {1}], [1, 1, 2], per_cost=True)[0] == (0,)
    assert order([set()], [1], per_cost=False)[0] == ()


def test_order_ends_when_time_is_up() -> None:
    covers = [{f, f + 1} for f in range(7)]
    whole, known = order(covers, [1] * 7, per_cost=False)
    cut, fewer = order(covers, [1] * 7, per_cost=False, most=8)
    assert cut == whole[: len(cut)]
    assert len(cut) < len(whole)
    assert len(fewer.asked) < len(known.asked)
