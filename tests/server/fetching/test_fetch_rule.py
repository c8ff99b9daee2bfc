"""A record's fetches are chosen by what they can gain in time, and by their price."""

import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.items import Item
from polydom.indexer.index.kernels.expected_quality import LEAST_GAIN
from polydom.server.engine.budget import Deadline
from polydom.server.engine.planning.planner import Planner
from polydom.server.engine.request import Request
from polydom.server.fetching.fetch_rule import FetchRule, expected_quality
from polydom.server.runtime.known_columns import KnownColumns
from polydom.server.runtime.translator import Translator
from polydom.server.settings import Settings
from tests.support.clock import Clock
from tests.support.indexes import fetched
from tests.support.indexes.fetched import EMPLOYER, ORDERS

INDEX = fetched.make_index()
BOTH = EMPLOYER | ORDERS
LEFT_S = 0.02


def planner() -> Planner:
    assert INDEX.package is not None
    return Planner(INDEX, INDEX.package.extractor(), now=Clock())


PLANNER = planner()
RULE = FetchRule(PLANNER, KnownColumns.of(PLANNER.package))
TRANSLATOR = Translator(PLANNER, Settings())


def item_of(**record: object) -> Item:
    return TRANSLATOR.read({"customer_id": 17, **record})


def request_of(item: Item, min_quality: float = 0.0) -> Request:
    return Request(item, Deadline(50.0, LEFT_S), min_quality=min_quality)


def choose(
    able: int, chances: tuple[float, float], max_price: float = math.inf, **own: object
) -> int:
    item = item_of(**(own or {"age": 31, "height": 1.7}))
    assert item.gaps is not None
    return RULE.choose(request_of(item), item.gaps, able, chances, LEFT_S, max_price)


def test_a_column_that_the_record_names_is_not_lacked() -> None:
    item = item_of(age=31, height=1.7)
    assert item.gaps is not None
    assert RULE.lacked(item.gaps) == BOTH
    half = item_of(age=31, height=1.7, n_orders=3)
    assert half.gaps is not None
    assert RULE.lacked(half.gaps) == BOTH  # `mean_amount` is to be fetched
    given_both = item_of(age=31, height=1.7, n_orders=3, mean_amount=None)
    assert given_both.gaps is not None
    assert RULE.lacked(given_both.gaps) == EMPLOYER


def test_fetches_raise_the_best_row_that_can_answer() -> None:
    item = item_of(age=31, height=1.7)
    assert item.gaps is not None
    found = [RULE.row(request_of(item), item.gaps, came, LEFT_S) for came in range(4)]
    assert found == [1, 3, 5, 7]
    # 25 us pay for the prior alone, whatever comes
    assert RULE.row(request_of(item), item.gaps, BOTH, 25e-6) == 0


def test_a_quality_below_the_wanted_one_is_worth_nothing() -> None:
    item = item_of(age=31, height=1.7)
    assert item.gaps is not None
    asked = request_of(item, min_quality=0.78)
    found = [RULE.quality(asked, item.gaps, LEFT_S, came) for came in range(4)]
    assert found == [0.0, 0.0, 0.8, 0.9]


def test_what_cannot_come_in_time_is_not_sent() -> None:
    assert choose(BOTH, (1.0, 1.0)) == BOTH
    assert choose(BOTH, (1.0, 0.0)) == EMPLOYER
    assert choose(BOTH, (1e-4, 1.0)) == ORDERS
    assert choose(ORDERS, (1.0, 1.0)) == ORDERS
    assert choose(0, (1.0, 1.0)) == 0


def test_no_more_is_paid_than_allowed() -> None:
    assert choose(BOTH, (1.0, 1.0), max_price=0.0019) == EMPLOYER
    assert choose(BOTH, (1.0, 1.0), max_price=0.002) == BOTH
    assert choose(ORDERS, (1.0, 1.0), max_price=0.0) == 0


@given(
    chances=st.tuples(*[st.floats(0, 1)] * 4),
    qualities=st.lists(st.floats(0, 1), min_size=16, max_size=16),
    sent=st.integers(0, 15),
)
def test_expected_quality_is_the_mean_over_all_outcomes(
    chances: tuple[float, ...], qualities: list[float], sent: int
) -> None:
    total = 0.0
    for outcome in product((False, True), repeat=4):
        came, share = 0, 1.0
        for u, comes in enumerate(outcome):
            if not sent >> u & 1:
                share *= not comes
            else:
                share *= chances[u] if comes else 1 - chances[u]
                came |= comes << u
        total += share * qualities[came]
    found = expected_quality(sent, chances, qualities.__getitem__)
    assert found == pytest.approx(total, abs=1e-12)


@given(chances=st.tuples(st.floats(0, 1), st.floats(0, 1)), price=st.floats(0, 0.004))
def test_no_other_combination_is_expected_to_be_better(
    chances: tuple[float, float], price: float
) -> None:
    item = item_of(age=31, height=1.7)
    assert item.gaps is not None
    gaps, request = item.gaps, request_of(item)
    sent = RULE.choose(request, gaps, BOTH, chances, LEFT_S, price)

    def value(some: int) -> float:
        return expected_quality(
            some, chances, lambda came: RULE.quality(request, gaps, LEFT_S, came)
        )

    allowed = [some for some in range(4) if some in (0, EMPLOYER) or price >= 0.002]
    # a fetch that gains less than `LEAST_GAIN` is left out, and there are two of them
    assert value(sent) >= max(map(value, allowed)) - 2 * LEAST_GAIN
    assert sent in allowed
