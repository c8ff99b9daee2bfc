"""A record's fetches are chosen by what they can gain in time, and by their price."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.items import Item
from polydom.indexer.index.fetches.item_gains import KNOTS, ItemGains
from polydom.indexer.index.kernels.expected_quality import LEAST_GAIN
from polydom.server.engine.budget import Deadline
from polydom.server.engine.planning.planner import Planner
from polydom.server.engine.request import Request
from polydom.server.fetching.fetch_rule import (
    LATE,
    MOST_SENT,
    MOST_UNSURE,
    FetchRule,
    Purse,
    Situation,
    expected_quality,
    members,
)
from polydom.server.runtime.known_columns import KnownColumns
from polydom.server.runtime.translator import Translator
from polydom.server.settings import Settings
from tests.support.clock import Clock
from tests.support.indexes import fetched
from tests.support.indexes.fetched import EMPLOYER, ORDERS
from tests.support.oracles.fetching import worth_sending

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


def send(able: int, chances: tuple[float, float], purse: Purse = Purse()) -> int:  # noqa: B008
    """The fetches that are sent, of those that are able to come."""
    situation = asked()
    free = RULE.free(situation, able, chances, (0.0, 0.0))
    return free | RULE.paid(situation, 0, free, able, chances, purse)


def asked(
    min_quality: float = 0.0, left_s: float = LEFT_S, rule: FetchRule = RULE
) -> Situation:
    item = item_of(age=31, height=1.7)
    assert item.gaps is not None
    return rule.situation(request_of(item, min_quality), item.gaps, left_s)


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
    assert [asked().row(came) for came in range(4)] == [1, 3, 5, 7]
    # 25 us pay for the prior alone, whatever comes
    assert asked(left_s=25e-6).row(BOTH) == 0


def test_a_quality_below_the_wanted_one_is_worth_nothing() -> None:
    assert [*map(asked(0.78).quality, range(4))] == [0.0, 0.0, 0.8, 0.9]


def test_what_cannot_come_in_time_is_not_sent() -> None:
    assert send(BOTH, (1.0, 1.0)) == BOTH
    assert send(BOTH, (1.0, 0.0)) == EMPLOYER
    assert send(BOTH, (1e-4, 1.0)) == ORDERS
    assert send(ORDERS, (1.0, 1.0)) == ORDERS
    assert send(0, (1.0, 1.0)) == 0


class Drawn(Situation):
    """A situation with drawn qualities, which fall if calls hold the loop for long."""

    qualities: tuple[float, ...]  # of each set of fetches
    limits_s: tuple[float, ...]  # Seconds up to which each set has its quality
    rest = 0.8  # Share of the quality of sets that calls have held up for longer

    def quality(self, came: int, held_s: float = 0.0) -> float:
        own = max(self.qualities[some] for some in range(came + 1) if not some & ~came)
        return own * (1.0 if held_s <= self.limits_s[came] else self.rest)

    def is_enough(self, held_s: float) -> bool:
        return held_s <= min(self.limits_s)


@given(
    chances=st.tuples(*[st.floats(0, 1)] * 3),
    held_s=st.tuples(*[st.sampled_from([0.0, 2e-4, 1e-3, 2e-3])] * 3),
    qualities=st.tuples(*[st.floats(0, 1)] * 8),
    limits_s=st.tuples(*[st.sampled_from([0.0, 1e-3, 2.5e-3, 1.0])] * 8),
    able=st.integers(0, 7),
)
def test_what_is_sent_is_worth_the_time_that_it_takes(
    chances: tuple[float, ...],
    held_s: tuple[float, ...],
    qualities: tuple[float, ...],
    limits_s: tuple[float, ...],
    able: int,
) -> None:
    rule = FetchRule(PLANNER, KnownColumns.of(PLANNER.package))
    rule.with_price = 0
    known = asked()
    situation = Drawn(rule, known.request, known.gaps, LEFT_S)
    situation.qualities, situation.limits_s = qualities, limits_s
    sent = rule.free(situation, able, chances, held_s)
    values = worth_sending(situation.quality, able, chances, held_s)
    gaining = max(values)
    if sum(held_s[u] for u in members(gaining)) <= min(limits_s):
        assert sent == gaining  # nothing is lost by sending all of them
    else:
        assert values[sent] >= max(values.values()) - LEAST_GAIN


@given(left_s=st.floats(0, 3e-4), held_s=st.floats(0, 3e-4))
def test_time_is_enough_if_it_pays_for_every_row(left_s: float, held_s: float) -> None:
    situation = asked(left_s=left_s)
    if situation.is_enough(held_s):
        for came in range(4):
            assert situation.row(came, held_s) == situation.row(came)
    assert asked(left_s=left_s + held_s + 3e-4).is_enough(held_s)


def test_no_more_is_paid_than_allowed() -> None:
    assert send(BOTH, (1.0, 1.0), Purse(most=0.0019)) == EMPLOYER
    assert send(BOTH, (1.0, 1.0), Purse(most=0.002)) == BOTH
    assert send(ORDERS, (1.0, 1.0), Purse(most=0.0)) == 0


def test_what_is_left_buys_others_by_their_price() -> None:
    assert RULE.with_others(0, BOTH, 0.0019) == EMPLOYER
    assert RULE.with_others(0, BOTH, 0.002) == BOTH
    assert RULE.with_others(ORDERS, ORDERS, 0.002) == ORDERS
    assert RULE.with_others(EMPLOYER, ORDERS, math.inf) == BOTH


def test_what_gains_less_than_its_price_is_worth_is_not_bought() -> None:
    # with `employer`, `orders` raises the quality from .75 to .9 for .002
    assert send(BOTH, (1.0, 1.0), Purse(worth=74.0)) == BOTH
    assert send(BOTH, (1.0, 1.0), Purse(worth=76.0)) == EMPLOYER


def with_gains(gains: dict[int, Sequence[float]]) -> FetchRule:
    """The rule of an index that knows what items gain by larger sets, by margin.

    The margin is that of the set 0b001, which needs no fetch.
    """
    assert INDEX.package is not None
    margins = np.tile(np.linspace(0.0, 1.0, KNOTS), (len(gains), 1))
    pairs = np.array([(0b001, larger) for larger in gains], np.uint64)
    own = ItemGains(pairs, margins, np.array([*gains.values()]))
    index = replace(INDEX, package=replace(INDEX.package, gains=own))
    own_planner = Planner(index, INDEX.package.extractor(), now=Clock())
    return FetchRule(own_planner, KnownColumns.of(own_planner.package))


def test_an_item_of_which_the_model_is_sure_buys_nothing() -> None:
    rule = with_gains({0b101: np.linspace(0.3, 0.0, KNOTS).tolist()})
    situation = asked(rule=rule)

    def bought(margin: float | None, worth: float = 0.0) -> int:
        purse = Purse(math.inf, worth, margin)
        chances = (0.0, 1.0)
        return rule.paid(situation, 0, 0, ORDERS, chances, purse)

    assert bought(0.0) == bought(0.9) == bought(None) == ORDERS
    assert bought(1.0) == 0
    assert bought(0.5, worth=74.0) == ORDERS  # gains .15 for .002
    assert bought(0.5, worth=76.0) == 0


def test_a_margin_known_before_a_free_fetch_came_decides_what_is_bought() -> None:
    falling = np.linspace(1.0, 0.0, KNOTS)
    gains = {0b011: 0.1 * falling, 0b111: 0.3 * falling}
    rule = with_gains({larger: own.tolist() for larger, own in gains.items()})
    situation = asked(rule=rule)

    def bought(margin: float, came: int, worth: float) -> int:
        purse = Purse(worth=worth, margin=margin)
        return rule.paid(situation, came, EMPLOYER & ~came, ORDERS, (1.0, 1.0), purse)

    # with a margin of .5, `employer` gains .05 and both gain .15
    for came in (EMPLOYER, 0):
        assert bought(1.0, came, 0.0) == 0
        assert bought(0.5, came, 49.0) == ORDERS  # gains .1 for .002
        assert bought(0.5, came, 51.0) == 0


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


def test_fetches_that_have_come_leave_room_for_those_that_may_come() -> None:
    came, last = (1 << 20) - 1, 1 << 20
    chances = [*[1.0] * 20, 0.25]
    found = expected_quality(
        came | last, chances, lambda some: 0.8 if some & last else 0.4
    )
    assert found == pytest.approx(0.5)


def test_a_purchase_among_many_fetches_weighs_few_sets() -> None:
    rule = FetchRule(PLANNER, KnownColumns.of(PLANNER.package))
    rule.prices = (0.001,) * 6 + (0.0,) * 12
    rule.with_price, free = (1 << 6) - 1, ((1 << 12) - 1) << 6
    weighed = set[int]()

    class Counting(Situation):
        def quality(self, came: int, held_s: float = 0.0) -> float:
            weighed.add(came)
            return 0.5 + came.bit_count() / 100

    known = asked()
    situation = Counting(rule, known.request, known.gaps, LEFT_S)
    able = rule.with_price | free
    bought = rule.paid(situation, 0, free, able, [0.5] * 18, Purse())
    assert bought.bit_count() == MOST_SENT
    assert len(weighed) <= 1 << MOST_UNSURE


@given(
    withheld=st.integers(0, 7),
    left_s=st.one_of(st.just(0.0), st.floats(0, 6e-5)),
    exact=st.booleans(),
)
def test_the_best_row_without_some_features_is_found_without_a_look_up(
    withheld: int, left_s: float, exact: bool
) -> None:
    own = planner()
    item = item_of(age=31)
    request = Request(item, Deadline(50.0, left_s), exact=exact)
    row = own.best_without(withheld, request, left_s)
    assert own.given.cache_info().misses == 0
    allowed = own._for_plan(request, left_s, 1.0)
    expected = own.given(withheld).best(item.size, allowed)
    assert row == (own.prior if expected < 0 else expected)


@given(
    chances=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    most=st.floats(0, 0.004),
    worth=st.floats(0, 100),
)
def test_no_other_combination_is_expected_to_be_better(
    chances: tuple[float, float], most: float, worth: float
) -> None:
    quality = asked().quality
    sent = send(BOTH, chances, Purse(most, worth))

    def value(some: int) -> float:
        own = expected_quality(some, chances, quality)
        return own - worth * 0.002 * (some >> 1)

    # `employer` is free, and is sent unless that would make too many answers late
    late = max(LATE * (1 - chances[0]) * quality(some) for some in (0, ORDERS))
    allowed = [some for some in range(4) if some in (0, EMPLOYER) or most >= 0.002]
    # a fetch that gains less than `LEAST_GAIN` is left out, and there are two of them
    assert value(sent) >= max(map(value, allowed)) - 2 * LEAST_GAIN - late
    assert sent in allowed
