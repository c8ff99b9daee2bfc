"""Messages and errors of gRPC calls, with bounded memory for slow messages.

When the server asks gRPC for a message, gRPC receives the message into memory, and does
not say how many bytes have arrived. So only a few slow messages may arrive at the same
time.
"""

import asyncio
import contextlib
import math
import time
import types
from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple, NoReturn, cast

import grpc

from polydom.features.errors import BadInput, PolydomError

from ..errors import (
    STATUSES,
    Failure,
    NotReady,
    Overloaded,
    ReceiveTimeout,
)

CODES = {s.number: grpc.StatusCode[s.grpc] for s in STATUSES if s.grpc}
# A message that comes within QUICK_S seconds needs no place in `Places`. A request
# waits up to WAIT_S seconds for permission to read its message.
QUICK_S, WAIT_S = 0.005, 1.0
# A call that has waited in a place for this many seconds may have to give way to
# another.
LEAST_S = 0.25
# Copying long messages may take the share SHARE of the event loop's time, and AHEAD_S
# seconds beyond it.
SHARE, AHEAD_S = 1 / 3, 0.005
# Seconds for a whole request to arrive, as over HTTP.
RECEIVE_S = 10.0


class Received(NamedTuple):
    """An encoded message, and its time of arrival on the monotonic clock."""

    arrived_s: float
    data: bytes


def receive(data: bytes) -> Received:
    """Return a message with its time of arrival; gRPC calls this to decode it."""
    return Received(time.monotonic(), data)


async def abort(context: Any, status: int, failure: Failure) -> NoReturn:
    """End a call with an error; `status` is an HTTP status, `failure` the HTTP body.

    gRPC keeps the raised exception and the call in a reference cycle. So the caller
    must first drop all references to the request.
    """
    code = CODES.get(status, grpc.StatusCode.INTERNAL)
    await context.abort(code, failure.error)
    raise AssertionError("an aborted call goes no further")


class Places:
    """Limits how many calls wait for a long message: each of them needs a place.

    The limit bounds memory, because each call may keep a whole message. Only the event
    loop may use the object.
    """

    def __init__(self, most: int, what: str) -> None:
        self._most = most
        self._what = what
        self._taken = 0
        self._closed = False
        # for each waiting call: the future that ends it, and the time since when it
        # waits; oldest first
        self._waiting: dict[asyncio.Future[PolydomError], float] = {}

    def close(self) -> None:
        """Admit no more calls, and end the waiting calls with NotReady."""
        self._closed = True
        for ended in self._waiting:
            if not ended.done():
                ended.set_result(_stopping())

    @contextlib.contextmanager
    def take(self) -> Iterator[list["asyncio.Task[Any]"]]:
        """Occupy a place while the context is open, until the call's message is read.

        Yields an empty list, to which the caller adds the task that reads the message.
        The place becomes free after this task has ended. If no place is free, the call
        that has waited longest is ended. But if that call has waited for less than
        `LEAST_S` seconds, Overloaded is raised instead.
        """
        if self._closed:
            raise _stopping()
        if self._taken >= self._most:
            self._make_room()
        self._taken += 1
        readings: list[asyncio.Task[Any]] = []
        try:
            yield readings
        finally:
            _when_done(readings, self._give_back)

    async def wait(
        self, arrival: "asyncio.Future[None]", within_s: float | None = None
    ) -> None:
        """Wait until the future `arrival` is done: then the call's message has arrived.

        Raises ReceiveTimeout after `within_s` seconds, and Overloaded if another call
        needs this call's place.
        """
        if self._closed:
            raise _stopping()
        ended = asyncio.get_running_loop().create_future()
        self._waiting[ended] = time.monotonic()
        try:
            await asyncio.wait(
                (arrival, ended), timeout=within_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            self._waiting.pop(ended, None)
        if arrival.done():
            return
        if ended.done():
            raise ended.result()
        raise ReceiveTimeout(f"no whole message came within {within_s:g} s")

    def _give_back(self) -> None:
        self._taken -= 1

    def _make_room(self) -> None:
        error = Overloaded(
            f"more than {self._most} {self._what} wait for what is still to come; this "
            "one has to give way"
        )
        longest, since_s = next(iter(self._waiting.items()), (None, math.inf))
        if longest is None or time.monotonic() - since_s < LEAST_S:
            raise error
        del self._waiting[longest]
        if not longest.done():
            longest.set_result(error)


class Intake:
    """Reads the messages of gRPC calls, a few at a time; for the event loop only.

    `most` limits the number of requests that read messages at once, and also the number
    of streams. `longest` is the maximum size of a message in bytes.
    """

    def __init__(self, most: int, longest: int) -> None:
        quick = max(1, most // 2)
        self._quick = asyncio.Semaphore(quick)
        self._slow = Places(max(1, most - quick), "requests")
        self.streams = Places(most, "streams")  # a stream holds its place until it ends
        self.size = 0  # upper bound of the bytes received since the start
        self._longest = longest
        self._next_s = 0.0  # time at which the next long message may be copied

    async def request(self, context: Any) -> Received:
        """Return the only message of a call.

        If the message arrives slowly, the call occupies one of a few places.
        ReceiveTimeout or Overloaded is raised if the message takes too long.
        """
        await self._acquire_turn()
        arrival, reading = self._begin(context)
        held = [reading]
        try:
            began_s = time.monotonic()
            await asyncio.wait((arrival,), timeout=QUICK_S)
            if not arrival.done() and time.monotonic() - began_s > 2 * QUICK_S:
                # the event loop was late, so the message may have come meanwhile
                await asyncio.wait((arrival,), timeout=QUICK_S)
            if arrival.done():
                await _settled(reading)
            held.clear()
        finally:
            _when_done(held, self._quick.release)
        if not arrival.done():
            with self._slow.take() as readings:
                readings.append(reading)
                await self._wait(self._slow, arrival, RECEIVE_S)
                await _settled(reading)
        received = reading.result()
        if received is None:
            raise BadInput("the call has no message")
        return received

    async def _acquire_turn(self) -> None:
        """Wait for permission to read; raise Overloaded after `WAIT_S` seconds."""
        if not self._quick.locked():
            await self._quick.acquire()
            return
        try:
            async with asyncio.timeout(WAIT_S):
                await self._quick.acquire()
        except TimeoutError:
            raise Overloaded("more requests came than can be read in time") from None

    async def next(
        self, context: Any, readings: "list[asyncio.Task[Any]]"
    ) -> Received | None:
        """Return the next message of a stream; None after the last.

        `readings` is the list that `Places.take` yielded. Its content is replaced by
        the task that reads this message.
        """
        arrival, reading = self._begin(context)
        readings[:] = [reading]
        await self._wait(self.streams, arrival)
        await _settled(reading)
        return reading.result()

    async def _wait(
        self,
        places: Places,
        arrival: "asyncio.Future[None]",
        within_s: float | None = None,
    ) -> None:
        try:
            await places.wait(arrival, within_s)
        except (PolydomError, asyncio.CancelledError):
            self.size += self._longest  # the size of the part that has come is unknown
            raise

    def _begin(
        self, context: Any
    ) -> tuple["asyncio.Future[None]", "asyncio.Task[Received | None]"]:
        """Start a task that reads a message; return a future and the task.

        The future is done when the message has arrived, or the task has failed. The
        task is never cancelled, because gRPC would then not free the received bytes.
        """
        arrival = asyncio.get_running_loop().create_future()
        reading = asyncio.ensure_future(self._read(context, arrival))
        reading.add_done_callback(_forget)
        return arrival, reading

    async def _read(
        self, context: Any, arrival: "asyncio.Future[None]"
    ) -> Received | None:
        try:
            received: Any = await self._taking_turns(context.read(), arrival)
        finally:
            if not arrival.done():
                arrival.set_result(None)
        if received is grpc.aio.EOF:
            return None
        self.size += len(received.data)
        return cast(Received, received)

    @types.coroutine
    def _taking_turns(
        self, reading: Any, arrival: "asyncio.Future[None]"
    ) -> Generator[Any, Any, Any]:
        """Run gRPC's coroutine `reading`, with a pause between arrival and copy.

        Copying a long message takes milliseconds. Without pauses, gRPC would copy all
        messages that arrive together before other tasks can run. gRPC has no hook
        between a message's arrival and its copy. So this function runs `reading` step
        by step; the first step ends at the arrival, and `arrival` is set then.
        """
        asked_s = time.monotonic()
        try:
            yield reading.send(None)
        except StopIteration as done:
            return done.value
        except BaseException:
            reading.close()
            raise
        arrival.set_result(None)
        begun_s = time.monotonic()
        if begun_s - asked_s > QUICK_S:  # messages that come sooner are short
            while begun_s < self._next_s:
                yield from asyncio.sleep(self._next_s - begun_s).__await__()
                begun_s = time.monotonic()
        try:
            while True:
                yield reading.send(None)
        except StopIteration as done:
            return done.value
        finally:
            took_s = time.monotonic() - begun_s
            self._next_s = max(self._next_s, begun_s - AHEAD_S) + took_s / SHARE


async def _settled(reading: "asyncio.Task[Any]") -> None:
    if not reading.done():
        await asyncio.wait((reading,))


def _when_done(
    readings: "list[asyncio.Task[Any]]", release: Callable[[], None]
) -> None:
    if readings and not readings[-1].done():
        readings[-1].add_done_callback(lambda _: release())
    else:
        release()


def _stopping() -> NotReady:
    return NotReady("the server is about to stop")


def _forget(reading: "asyncio.Future[Any]") -> None:
    """Retrieve the exception of a reading task, so that asyncio does not log it."""
    if not reading.cancelled():
        reading.exception()
