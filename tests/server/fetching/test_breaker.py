"""A source goes down after failures in a row, is probed, and comes back."""

from hypothesis import given
from hypothesis import strategies as st

from polydom.server.fetching.breaker import FAILURES, PROBE_S, Breaker


@given(st.lists(st.booleans(), max_size=60))
def test_a_source_is_down_while_its_latest_calls_have_failed(came: list[bool]) -> None:
    breaker = Breaker()
    for number, one in enumerate(came):
        if one:
            breaker.came(float(number))
        else:
            breaker.failed(float(number), float(number))
        latest = came[max(0, number + 1 - FAILURES) : number + 1]
        assert breaker.down == (len(latest) == FAILURES and not any(latest))


def test_one_probe_goes_through_in_half_a_second() -> None:
    breaker = Breaker()
    for _ in range(FAILURES):
        breaker.failed(10.0, 9.0)
    times_s = [10.0 + step / 64 for step in range(200)]
    probed_s = [time_s for time_s in times_s if breaker.probes(time_s)]
    assert probed_s == [10.0 + PROBE_S * n for n in range(1, 7)]


def test_failed_probes_do_not_delay_the_next_one() -> None:
    breaker = Breaker()
    for _ in range(FAILURES):
        breaker.failed(10.0, 9.0)
    assert breaker.probes(10.5)
    breaker.failed(10.9, 10.5)
    assert breaker.probes(11.0)


def test_keys_that_hang_while_others_come_do_not_take_a_source_down() -> None:
    breaker = Breaker()
    breaker.came(10.5)
    for _ in range(10 * FAILURES):
        breaker.failed(11.0, 10.0)
    assert not breaker.down
    for _ in range(FAILURES):
        breaker.failed(11.6, 10.6)
    assert breaker.down
