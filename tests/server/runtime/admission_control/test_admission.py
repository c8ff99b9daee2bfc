"""What is begun, held and refused, by a clock and a loop that only do as they are told.

The loop is a slow and obvious one: in every turn it reads what has come, in order, then
calls what was to be called. Reading, refusing and answering take time on its clock.
"""

import asyncio
import heapq
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polydom.server.errors import Overloaded
from polydom.server.runtime.admission_control.admission import (
    ACCEPTED,
    FIRST_COST_S,
    FORGET_S,
    LEAST,
    LONGEST_REST_S,
    LONGEST_UNREAD,
    LONGEST_WAIT,
    REFUSING,
    TURN_S,
    Admission,
)
from polydom.server.runtime.admission_control.usual_budget import UsualBudget
from tests.support.examples import few

BUDGET_S = 0.05
READ_S, REFUSE_S = 1e-6, 1e-5


class World:
    """One loop, one clock, and what became of each request: when, and how."""

    def __init__(
        self,
        budget_s: float = BUDGET_S,
        cost_s: float = FIRST_COST_S,
        at_once: bool = False,
    ):
        self.at_once = at_once  # True if requests are answered as they are read
        self.now_s, self.cost_s = 100.0, cost_s
        self.soon: list[Callable[[], None]] = []
        self.done: list[tuple[str, float, float]] = []
        self.longest_s = 0.0
        budget = UsualBudget(budget_s)
        self.admission = Admission(budget, self.soon.append, lambda: self.now_s)

    def request(self, came_s: float, turn_s: float | None = None) -> None:
        """Read a request that came then, in a turn that began at `turn_s` or now."""
        read_s = self.now_s
        self.now_s += READ_S

        def answer() -> None:
            self.now_s += self.cost_s
            self.done.append(("answered", came_s, self.now_s))

        def begin() -> None:
            if self.at_once:
                answer()
            else:  # a task, as the protocol makes one
                self.admission.goes_on()
                self.soon.append(answer)

        if self.admission.enter(read_s if turn_s is None else turn_s):
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
                self.request(heapq.heappop(waiting), began_s)
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


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("cost_s", [2e-4, 5e-4, 2e-3])
@pytest.mark.parametrize("load", [0.3, 0.8, 3.0, 10.0])
def test_admission_answers_in_time_what_it_takes_and_refuses_the_rest_at_once(
    cost_s: float, load: float, at_once: bool
) -> None:
    world = World(cost_s=cost_s, at_once=at_once)
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
        # the first turn, whose costs are unknown, reads all before it answers any
        known_s = 100.2 if at_once else 0.0
        assert max(world.took_s("refused", known_s)) < BUDGET_S / 2


@settings(max_examples=few(60), deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0, 0.2), st.integers(1, 200)), min_size=1, max_size=12
    ),
    st.sampled_from([1e-5, 2e-4, 3e-3]),
    st.booleans(),
)
def test_admission_keeps_the_order_and_loses_nobody(
    bursts: list[tuple[float, int]], cost_s: float, at_once: bool
) -> None:
    world = World(cost_s=cost_s, at_once=at_once)
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


def test_a_request_that_waited_in_the_kernel_for_long_is_refused() -> None:
    admission, late_s = World().admission, LONGEST_UNREAD * BUDGET_S
    assert admission.enter(100.0, 9.0), "the machine stalled, but nobody else waits"
    admission.shorten_queue = lambda room: 1e-3
    for _ in range(ACCEPTED):
        admission.accept()
    admission._when_accepted()
    assert admission.enter(100.0, late_s)
    assert not admission.enter(100.0, late_s * 1.001)
    longest_s = LONGEST_WAIT * BUDGET_S
    assert not admission.hold(lambda: None, 2.001 * longest_s)
    assert admission.hold(lambda: None, longest_s)


def test_connections_rest_so_that_refusals_take_a_share_of_the_time() -> None:
    world = World()
    admission, rests = world.admission, list[float]()
    for _ in range(200):
        read_s = world.now_s
        world.now_s += REFUSE_S
        rests.append(admission.refused(read_s))
    assert rests == sorted(rests)
    # one after the other: each rest ends so long after the rest before it
    assert rests[-1] == pytest.approx(200 * REFUSE_S * (1 / REFUSING - 1), rel=0.02)
    assert not rests[0], "to pause a connection would take longer"
    world.now_s += rests[-1]
    assert not admission.refused(world.now_s - REFUSE_S)


def test_a_stopped_process_lets_no_connection_rest_for_it() -> None:
    world = World()
    read_s = world.now_s
    world.now_s += 10.0
    rest_s = world.admission.refused(read_s)
    assert rest_s == pytest.approx(FIRST_COST_S / REFUSING)
    for _ in range(10_000):
        rest_s = world.admission.refused(world.now_s - 1e-4)
    assert rest_s == LONGEST_REST_S


def test_there_is_room_for_those_that_rest_if_nobody_waits() -> None:
    admission = World().admission
    room = admission.room()
    assert room >= LEAST
    for _ in range(room):
        assert admission.enter(100.0)
    assert admission.room() == 0
    assert admission.hold(lambda: None)
    assert admission.room() == 0


def test_of_pipelined_requests_those_that_are_in_time_are_begun() -> None:
    admission = World().admission
    whole = admission.room_behind(10_000, 0.0, 0.0, 0)
    assert whole == int(LONGEST_UNREAD * BUDGET_S / admission.pace_s)
    half_s = LONGEST_UNREAD * BUDGET_S / 2
    assert admission.room_behind(10_000, half_s, 0.0, 0) == whole // 2
    assert admission.room_behind(10_000, 0.0, 0.0, 1) == whole // 2
    # of 100 that came within four times the longest wait, the last 25 are fresh
    assert admission.room_behind(100, 0.0, 8 * half_s, 0) == 25
    assert admission.room_behind(100, 9.0, 0.0, 50) == 1


def test_callers_budgets_decide_how_long_requests_wait() -> None:
    world = World()
    budget = UsualBudget(BUDGET_S)
    admission = Admission(budget, world.soon.append, lambda: world.now_s)
    longest = admission.room_behind(10**6, 0.0, 0.0, 0)
    for _ in range(500):
        budget.add(BUDGET_S / 5)
    for _ in range(FIRST := 2 * LEAST):
        admission.enter(world.now_s)
        world.now_s += FIRST_COST_S
    assert FIRST
    for _ in range(3):
        world.turn()
    assert admission.room_behind(10**6, 0.0, 0.0, 0) == pytest.approx(
        longest / 5, rel=0.1
    )


def test_a_full_turn_of_connections_lets_the_queue_be_shortened() -> None:
    world, rooms = World(), list[int]()

    def shorten(room: int) -> float:
        rooms.append(room)
        return 0.0

    world.admission.shorten_queue = shorten
    for _ in range(ACCEPTED - 1):
        world.admission.accept()
    world.turn()
    assert not rooms
    for _ in range(20):
        for _ in range(ACCEPTED):
            world.admission.accept()
        world.now_s += 4e-4 * ACCEPTED
        world.turn()
    longest_s = LONGEST_UNREAD * BUDGET_S
    assert rooms[-1] == pytest.approx(longest_s / 4e-4 - ACCEPTED, abs=2)


def test_a_request_is_held_for_a_moment_even_if_no_other_comes() -> None:
    world, begun = World(), list[int]()
    assert world.admission.hold(lambda: begun.append(1))
    for _ in range(4):
        world.turn()
    assert begun == [1]
