"""Answers as if columns were fetched, with arrival times drawn from the index.

Nothing is fetched and nobody waits: an event loop skips the waits. All else, from the
choice of the fetches to the computed answer, is as in a server, and takes real time.
"""

import asyncio
import selectors
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from math import inf
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from polydom.features.errors import BadInput, PolydomError
from polydom.features.fetches.answers import Values
from polydom.features.fetches.fetch import Key
from polydom.features.items import Item, Value
from polydom.features.wording import listed
from polydom.indexer.index.package import Package

from ..engine.budget import Budget
from ..engine.executions.base_execution import Execution
from ..engine.executions.execution import begin, execute
from ..engine.request import Outcome, Request
from ..fetching.arrival import Arrival, exact
from ..fetching.latency import Latency
from ..runtime.request_fetches import RequestFetches
from ..runtime.translator import AtOnce, Translator
from ..runtime.waiting import Waiting
from ..schema.wire import Answer, Terms
from .labelled_items import LabelledItem

LONGEST_S = 3600.0  # of work on one item, if its budget has no end
# A record, or a text or an image with its vectors
Payload = Mapping[str, Value] | Item


class SkippingClock:
    """A monotonic clock in seconds that can skip a time. `now` is the clock below."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._skipped_s = 0.0
        self._held_s: float | None = None  # the time, while the clock stands still

    def __call__(self) -> float:
        """Return the time in seconds."""
        if self._held_s is not None:
            return self._held_s
        return self._now() + self._skipped_s

    def skip(self, seconds: float) -> None:
        """Move forward."""
        if self._held_s is not None:
            self._held_s += seconds
        self._skipped_s += seconds

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let no time pass inside, except what is skipped."""
        self._held_s = self()
        try:
            yield
        finally:
            held_s, self._held_s = self._held_s, None
            self._skipped_s = held_s - self._now()


class _SkippingSelector(selectors.SelectSelector):
    """Skips the time of a clock where another selector sleeps."""

    def __init__(self, clock: SkippingClock) -> None:
        super().__init__()
        self._clock = clock

    def select(
        self, timeout: float | None = None
    ) -> list[tuple[selectors.SelectorKey, int]]:
        """Return at once; the clock goes on by `timeout` seconds."""
        if timeout is not None and timeout > 0:
            self._clock.skip(timeout)
        return super().select(0)


class SkippingLoop(asyncio.SelectorEventLoop):
    """An event loop whose timers go by a clock, which skips the time to the next."""

    def __init__(self, clock: SkippingClock) -> None:
        self._now = clock
        super().__init__(_SkippingSelector(clock))

    def time(self) -> float:
        """Return the time in seconds."""
        return self._now()


class _DrawnFetch:
    """A source of one fetch: `values` come `after_s` seconds after they are asked for.

    Both are set before each record. `draws` (M,) are all arrival times.
    """

    down = False
    held_s = 0.0

    def __init__(self, loop: SkippingLoop, draws: NDArray[np.float64]) -> None:
        self.latency = Latency(draws)
        self.after_s = inf
        self.values: Values = {}
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None

    def ask(self, key: Key, due_s: float) -> Arrival:
        """Return an arrival that ends after the drawn time, if that is finite."""
        arrival = Arrival(exact(key), due_s, self._loop.time())
        if self.after_s < inf:
            come = partial(self._come, arrival, self.values)
            self._timer = self._loop.call_later(self.after_s, come)
        return arrival

    def _come(self, arrival: Arrival, values: Values) -> None:
        arrival.end("came", values, self._loop.time())
        arrival.tell()

    def refuse(self) -> None:
        """Do nothing: the answer says that the fetch failed."""

    def leave(self) -> None:
        """Forget a fetch that is late."""
        if self._timer is not None:
            self._timer.cancel()


class SimulatedFetches:
    """Answers items as a server would that has the fetches of the index.

    The columns that fetches bring are taken from each record, and the vectors from each
    text or image. Each answer draws one row
    of the index's arrival times. `clock` has to be the planner's clock. A record has
    the keys that are no features, even if its items lack these columns. No fetch fails
    before the end of a wait, nothing is kept for later records, and the event loop is
    never late. As in a server, a thread computes features of an item that waits, unless
    all were read from a record. Call `close` at last.
    """

    def __init__(self, translator: Translator, clock: SkippingClock) -> None:
        package = translator.planner.package
        self._clock = clock
        self._loop = SkippingLoop(clock)
        self._thread = ThreadPoolExecutor(1)  # computes while an item waits
        self._at_once = AtOnce(translator)
        self._planner = translator.planner
        self._draws = package.arrivals
        self._sources = [_DrawnFetch(self._loop, own) for own in package.arrivals.T]
        self._fetches = RequestFetches(translator, self._sources)
        self._fetched = fetched_columns(package)
        # keys that no feature reads need not be among the items' columns
        keys = {name for fetch in package.fetches for name in fetch.key}
        keys -= {*translator.known_columns.bits}
        self._keys: dict[str, Value] = dict.fromkeys(keys, 0)

    def asker(self, seed: int) -> Callable[[Terms, Payload], Answer]:
        """Return a function from terms and an item to an answer.

        Functions with the same seed draw the same arrival times for their first answer,
        for their second, and so on. The answer's `fetch_us` is how long it would have
        waited. The function raises the errors of `AtOnce.answer`.
        """
        return partial(self._ask, np.random.default_rng(seed))

    def _ask(self, rng: np.random.Generator, terms: Terms, payload: Payload) -> Answer:
        draw = self._draws[rng.integers(len(self._draws))].tolist()
        values, own = self._divided(payload)
        for source, after_s in zip(self._sources, draw, strict=True):
            source.after_s, source.values = after_s, values
        return self._loop.run_until_complete(self._answer(terms, own))

    def _divided(self, payload: Payload) -> tuple[Values, Payload]:
        """Return what fetches will bring, and the item without it."""
        if isinstance(payload, Item):
            return payload.brought or {}, replace(payload, brought=None)
        own = {**self._keys, **payload}
        return payload, {n: value for n, value in own.items() if n not in self._fetched}

    async def _answer(self, terms: Terms, item: Payload) -> Answer:
        request = self._at_once.begin(terms, item)
        try:
            waiting = self._fetches.send(request, terms)
            if waiting is None:
                return self._at_once.finish(request)
            awaits = waiting.pending or waiting.undecided
            with self._clock.held():
                if waiting.asks_first:  # a server computes meanwhile
                    first = execute(self._planner, request)
                    self._fetches.answered_first(waiting, first)
                arrived = await self._fetches.arrive(request, waiting)
        finally:
            for source in self._sources:
                source.leave()
        if not (awaits and self._fetches.overlaps):
            return self._at_once.finish(arrived)
        return self._at_once.finish(arrived, self._meanwhile(request, waiting, arrived))

    def _meanwhile(
        self, request: Request, waiting: Waiting, arrived: Request
    ) -> Outcome | None:
        """Return the outcome of an item of which features are computed during its wait.

        The work begins when the wait began. If something came, it pauses at the end of
        the wait, and goes on with what came. The result is None if it failed, as a
        server then begins anew.
        """
        clock, waited_s = self._clock, self._clock() - waiting.asked_s
        budget = request.budget.keeping(waiting.after_s)
        clock.skip(-waited_s)
        began_s = clock()
        execution = begin(self._planner, replace(request, budget=budget))
        pause = execution.pause if waiting.came else bool
        try:
            outcome = self._within(execution, budget, waited_s, pause)
        except PolydomError:
            outcome = None
        took_s = clock() - began_s
        clock.skip(max(waited_s - took_s, 0.0))
        if outcome is not None and waiting.came and not execution.stopped:
            rest = execution.go_on(arrived)
            rest.go_on_after(took_s)
            return self._within(rest, request.budget)
        ended_s = clock()
        return outcome and replace(
            outcome, started_s=ended_s - took_s, finished_s=ended_s
        )

    def _within(
        self,
        execution: Execution,
        budget: Budget,
        after_s: float = inf,
        pause: Callable[[], object] = bool,
    ) -> Outcome:
        """Run an execution in the thread, and end it when the budget ends, as a server.

        `pause` is called after some seconds.
        """
        running = self._thread.submit(execution.run)
        try:
            left_s = budget.left(self._clock())
            if after_s < left_s:
                wait([running], after_s)
                pause()
                left_s = budget.left(self._clock())
            return running.result(min(max(left_s, 0.0), LONGEST_S))
        except TimeoutError:
            return execution.rescue()
        finally:
            with self._clock.held():
                wait([running])

    def close(self) -> None:
        """Close the event loop, and end the thread."""
        self._loop.close()
        self._thread.shutdown()


def fetched_columns(package: Package) -> frozenset[str]:
    """Return the names of the columns that the fetches of a package bring."""
    return frozenset(name for fetch in package.fetches for name in fetch.columns)


def refuse_simulation(package: Package, items: Sequence[LabelledItem]) -> None:
    """Raise BadInput if there are no fetches, or no values that they could bring."""
    if not package.fetches:
        raise BadInput("--simulate-fetches: the index has no fetches")
    if package.kind != "record":
        if not isinstance(items[0].payload, Item):
            raise BadInput(
                "--simulate-fetches: --fetches FILE has to bring the vectors"
            )
        return
    named: set[Any] = set().union(*(item.payload for item in items))
    if lacking := sorted(fetched_columns(package) - named):
        raise BadInput(
            f"--simulate-fetches: no item has the columns {listed(lacking)}, which "
            "fetches bring; the values that would come have to be among the items"
        )
