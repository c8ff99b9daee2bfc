"""Kept values are those of the latest calls, in a bounded number of bytes."""

from hypothesis import given
from hypothesis import strategies as st

from polydom.server.fetching.arrival import Arrival, exact
from polydom.server.fetching.kept_values import ENTRY_BYTES, KeptValues
from tests.support.clock import Clock

LARGE = 1 << 30


def arrival(n: int, text: str = "") -> Arrival:
    one = Arrival(exact((n,)), 0.0, 0.0)
    one.end("kept", {"text": text}, 1.0)
    return one


def test_values_are_kept_until_their_time() -> None:
    clock = Clock(50.0)
    kept, one = KeptValues(LARGE, clock), arrival(1)
    kept.add(one, 60.0)
    assert kept.get(one.key) is one
    clock.now_s = 60.0
    assert kept.get(one.key) is None
    assert (len(kept), kept.bytes) == (0, 0)


def test_values_that_are_too_old_already_are_not_kept() -> None:
    kept = KeptValues(LARGE, Clock(50.0))
    kept.add(arrival(1), 50.0)
    assert len(kept) == 0


def test_the_values_of_the_later_call_stay() -> None:
    clock = Clock(50.0)
    kept = KeptValues(LARGE, clock)
    early, late = arrival(1, "early"), arrival(1, "late")
    kept.add(late, 61.0)
    kept.add(early, 60.0)  # a call that was left behind
    assert kept.get(late.key) is late
    kept.add(early, 62.0)
    assert kept.get(late.key) is early
    assert len(kept) == 1


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5000)), max_size=40))
def test_the_oldest_go_when_there_are_too_many_bytes(
    added: list[tuple[int, int]],
) -> None:
    most = 12_000
    kept = KeptValues(most, Clock(50.0))
    order: list[int] = []
    for number, (n, length) in enumerate(added):
        kept.add(arrival(n, "x" * length), 100.0 + number)
        order = [other for other in order if other != n] + [n]
        assert kept.bytes <= most
        there = [n for n in order if kept.get(exact((n,))) is not None]
        assert there == order[len(order) - len(there) :]  # the latest ones
        assert len(there) == len(kept)
        assert kept.bytes >= len(kept) * ENTRY_BYTES


def test_expired_values_make_place_for_others() -> None:
    clock = Clock(50.0)
    kept = KeptValues(LARGE, clock)
    for n in range(100):
        kept.add(arrival(n), 60.0)
    clock.now_s = 70.0
    kept.add(arrival(200), 80.0)
    assert len(kept) == 1
