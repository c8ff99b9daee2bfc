"""What is begun, held and refused, by a clock and a loop that only do as they are told.

The loop is a slow and obvious one: in every turn it reads what has come, in order, then
calls what was to be called. Reading, refusing and answering take time on its clock.
"""

import asyncio
import heapq
import socket
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polydom.server.errors import Overloaded
from polydom.server.runtime.admission import (
    ACCEPTED,
    FIRST_COST_S,
    FORGET_S,
    LEAST,
    LONGEST_WAIT,
    TURN_S,
    Admission,
    waiting_at,
)
from tests.support.examples import few

BUDGET_S = 0.05
READ_S, REFUSE_S = 1e-6, 1e-5


class World:
    """One loop, one clock, and what became of each request: when, and how."""

    def __init__(self, budget_s: float = BUDGET_S, cost_s: float = FIRST_COST_S):
        self.now_s, self.cost_s = 100.0, cost_s
        self.soon: list[Callable[[], None]] = []
        self.done: list[tuple[str, float, float]] = []
        self.longest_s = 0.0
        self.admission = Admission(budget_s, self.soon.append, lambda: self.now_s)

    def request(self, came_s: float) -> None:
        """Read one request that came then."""
        read_s = self.now_s
        self.now_s += READ_S

        def answer() -> None:
            self.now_s += self.cost_s
            self.done.append(("answered", came_s, self.now_s))

        def begin() -> None:  # a task, as the protocol makes one
            self.soon.append(answer)

        if self.admission.enter(read_s):
            begin()
        elif not self.admission.hold(begin):
            self.now_s += REFUSE_S
            self.done.append(("refused", came_s, self.now_s))
            self.admission.refused(read_s)

    def run(self, arrivals: list[float]) -> None:
        """Take turns until everything is done."""
        waiting = sorted(arrivals)
        heapq.heapify(waiting)
        while waiting or self.soon:
            if not self.soon:
                self.now_s = max(self.now_s, waiting[0])
            began_s = self.now_s
            while waiting and waiting[0] <= began_s:
                self.request(heapq.heappop(waiting))
            self.turn()
            self.longest_s = max(self.longest_s, self.now_s - began_s)

    def turn(self) -> None:
        """Call what was to be called."""
        soon, self.soon[:] = list(self.soon), []
        for call in soon:
            call()

    def took_s(self, how: str, since_s: float = 0.0) -> list[float]:
        return [
            done_s - came_s
            for what, came_s, done_s in self.done
            if what == how and came_s >= since_s
        ]


def evenly(rate: float, seconds: float) -> list[float]:
    return [100.0 + k / rate for k in range(int(rate * seconds))]


@pytest.mark.parametrize("cost_s", [2e-4, 5e-4, 2e-3])
@pytest.mark.parametrize("load", [0.3, 0.8, 3.0, 10.0])
def test_admission_answers_in_time_what_it_takes_and_refuses_the_rest_at_once(
    cost_s: float, load: float
) -> None:
    world = World(cost_s=cost_s)
    arrivals = evenly(load / cost_s, 1.0)
    world.run(arrivals)
    answered, refused = world.took_s("answered"), world.took_s("refused")
    assert len(answered) + len(refused) == len(arrivals)
    known = world.took_s("answered", since_s=100.2)  # what they cost, by then
    assert max(known) <= BUDGET_S
    # a probe is answered in the turn after the one in which it came
    assert world.longest_s < BUDGET_S / 2 or cost_s > TURN_S / LEAST
    if load < 1:
        assert not refused
    else:
        # what the loop can do beside refusing others, but for a third
        left = 1.0 - len(refused) * (READ_S + REFUSE_S)
        assert len(answered) * cost_s >= 2 / 3 * left
        assert max(refused) < BUDGET_S / 2


@settings(max_examples=few(60), deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0, 0.2), st.integers(1, 200)), min_size=1, max_size=12
    ),
    st.sampled_from([1e-5, 2e-4, 3e-3]),
)
def test_admission_keeps_the_order_and_loses_nobody(
    bursts: list[tuple[float, int]], cost_s: float
) -> None:
    world = World(cost_s=cost_s)
    arrivals = [100.0 + at_s for at_s, count in bursts for _ in range(count)]
    world.run(arrivals)
    assert sorted(came_s for _, came_s, _ in world.done) == sorted(arrivals)
    begun = [came_s for how, came_s, _ in world.done if how == "answered"]
    assert begun == sorted(begun)
    assert not world.admission._held


def test_admission_holds_a_burst_that_can_be_answered_in_time() -> None:
    world = World(budget_s=1.0)
    world.run([100.0] * 500)
    assert not world.took_s("refused")
    assert max(world.took_s("answered")) < LONGEST_WAIT
    assert world.longest_s < 2 * TURN_S


def test_admission_forgets_a_machine_that_stalled() -> None:
    world = World(cost_s=0.05)
    world.run(evenly(100, 5.0))
    assert world.admission.cost_s > 10 * FIRST_COST_S
    world.cost_s = FIRST_COST_S
    world.now_s += 2 * FORGET_S
    world.done.clear()
    world.run([world.now_s] * 60)
    assert not world.took_s("refused")


def test_admission_takes_no_single_stall_for_a_rule() -> None:
    world = World()
    world.run(evenly(9000, 0.2))
    before_s = world.admission.cost_s
    world.request(world.now_s)
    world.request(world.now_s)
    world.now_s += 10.0
    world.run([])
    assert world.admission.cost_s <= before_s * 1.3


def test_admission_begins_few_where_more_connections_wait() -> None:
    world = World(budget_s=1.0)
    for _ in range(ACCEPTED):
        world.admission.accept()
    world.turn()
    begun = sum(world.admission.enter(world.now_s) for _ in range(LEAST))
    assert 0 < begun < LEAST
    assert world.admission.hold(lambda: None)
    while world.soon:
        world.turn()
    # and as many as ever when no more do
    assert all(world.admission.enter(world.now_s) for _ in range(LEAST))


def test_connections_that_take_long_to_be_taken_cost_no_request_its_answer() -> None:
    """Thirty-two come at once, each of which asks again as soon as it is answered."""
    world = World(cost_s=3e-5)
    for _ in range(32):
        world.admission.accept()
    world.turn()
    for _ in range(32):
        world.request(world.now_s)
    world.now_s += 0.012
    answered = 0
    for _ in range(100):
        world.turn()
        done, answered = len(world.done) - answered, len(world.done)
        for _ in range(done):
            world.request(world.now_s)
    assert not world.took_s("refused")
    assert answered > 32


def test_admission_counts_what_connections_waited_for_being_taken() -> None:
    """Sixteen are taken a turn of 16 ms while 400 wait, so those wait about 0.4 s."""
    world, waiting = World(), [400]
    world.admission.unseen = lambda: waiting[0]
    waited_s = 0.0
    for _ in range(40):
        for _ in range(ACCEPTED):
            waited_s = world.admission.accept()
        world.now_s += 1e-3 * ACCEPTED
        world.turn()
    assert waited_s == pytest.approx(0.4, rel=0.05)
    assert not world.admission.enter(world.now_s, waited_s)
    assert not world.admission.hold(lambda: None, waited_s)
    # those that are connected are not asked to pay for it
    while world.soon:
        world.turn()
    assert world.admission.enter(world.now_s)
    # and once all were taken nobody is
    waiting[0] = 0
    world.admission.accept()
    world.turn()
    assert world.admission.accept() == 0


@pytest.mark.skipif(not hasattr(socket, "TCP_INFO"), reason="needs Linux")
def test_connections_that_wait_are_counted() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=16) as listener:
        assert waiting_at([listener]) == 0
        address = listener.getsockname()
        callers = [socket.create_connection(address) for _ in range(3)]
        assert waiting_at([listener, listener]) == 6
        taken, _ = listener.accept()
        assert waiting_at([listener]) == 2
        for connection in (*callers, taken):
            connection.close()


@settings(max_examples=few(200), deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("accept"), st.integers(1, 40)),
            st.tuples(st.just("request"), st.integers(1, 60)),
            st.tuples(st.just("rest"), st.floats(0, 2)),
            st.tuples(st.just("turn"), st.integers(1, 3)),
        ),
        max_size=30,
    )
)
def test_admission_always_recovers(steps: list[tuple[str, float]]) -> None:
    world = World()
    for what, how_much in steps:
        if what == "rest":
            world.now_s += how_much
            continue
        for _ in range(int(how_much)):
            if what == "accept":
                world.admission.accept()
            elif what == "request":
                world.request(world.now_s)
            else:
                world.turn()
    while world.soon:
        world.turn()
    assert not world.admission._held
    world.done.clear()
    world.run([world.now_s] * LEAST)
    assert len(world.took_s("answered")) == LEAST


def test_admission_lets_others_than_connections_wait_and_refuses_them() -> None:
    async def main() -> None:
        world = World(budget_s=0.01)
        tasks = [asyncio.ensure_future(world.admission.wait()) for _ in range(100)]
        await asyncio.sleep(0)
        refused = [task for task in tasks if task.done() and task.exception()]
        assert refused
        assert all(isinstance(task.exception(), Overloaded) for task in refused)
        tasks[len(tasks) - len(refused) - 1].cancel()  # who leaves hinders nobody
        while world.soon:
            soon, world.soon[:] = list(world.soon), []
            for call in soon:
                call()
            await asyncio.sleep(0)
        assert all(task.done() for task in tasks)

    asyncio.run(main())


def test_what_is_behind_others_has_half_of_a_turn() -> None:
    world = World()
    admission, quota = world.admission, int(TURN_S / FIRST_COST_S)
    half = quota // 2
    behind = [admission.enter_behind(world.now_s) for _ in range(quota)]
    assert behind == [True] * half + [False] * (quota - half)
    assert [admission.enter(world.now_s) for _ in range(half)] == [True] * half
    assert not admission.enter(world.now_s)


def test_what_is_behind_others_waits_or_is_refused_where_that_is_late() -> None:
    world, begun = World(), list[int]()
    admission, half = world.admission, int(TURN_S / FIRST_COST_S) // 2

    def begin(number: int) -> None:
        begun.append(number)
        world.now_s += FIRST_COST_S

    while admission.enter_behind(world.now_s):
        world.now_s += FIRST_COST_S
    held = 0
    while admission.hold_behind(partial(begin, held)):
        held += 1
    # they have half of the loop
    assert abs(held - LONGEST_WAIT * BUDGET_S / (2 * admission.pace_s)) <= 1
    assert not begun
    turns = 0
    while len(begun) < held:
        assert not admission.enter_behind(world.now_s)
        done = len(begun)
        world.turn()
        turns += 1
        assert len(begun) - done <= half
        assert turns < 100
    assert begun == list(range(held))


def test_few_who_wait_behind_others_are_begun_though_nobody_else_comes() -> None:
    world, begun = World(), list[int]()
    # more than a turn's time for each, so as few are begun as there may be
    admission = Admission(FIRST_COST_S, world.soon.append, lambda: world.now_s)
    for number in range(9):
        while admission.enter_behind(world.now_s):
            pass
        assert admission.hold_behind(partial(begun.append, number))
        world.turn()
        world.turn()
        assert begun == list(range(number + 1))
        world.turn()
        world.turn()
