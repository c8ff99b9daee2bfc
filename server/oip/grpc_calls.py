"""Calls over gRPC, whatever they are for: how messages come in, and how errors go out.

A message comes into memory once it is asked for, and nothing tells how much of it is
there. So few may be on their way for long.
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
# Seconds in which a message comes that needs no place, and that a request waits until
# it may be read; those that are read at once take turns.
QUICK_S, PATIENCE_S = 0.005, 1.0
# Seconds that one has a place at least, before it gives way to others.
LEAST_S = 0.25
# Share of the loop's time in which long messages are copied, and seconds of it that may
# be taken in advance.
SHARE, AHEAD_S = 1 / 3, 0.005
# Seconds in which a request has to come in whole, as over HTTP.
RECEIVE_S = 10.0


class Received(NamedTuple):
    """A message before it is decoded, and when it came on the monotonic clock."""

    arrived_s: float
    data: bytes


def receive(data: bytes) -> Received:
    """Take note of when a message came."""
    return Received(time.monotonic(), data)


async def abort(context: Any, status: int, failure: Failure) -> NoReturn:
    """End a call with an error, told as HTTP's status and body.

    What this raises is kept with the call, in a circle: whoever awaits it should have
    let go of the request.
    """
    code = CODES.get(status, grpc.StatusCode.INTERNAL)
    await context.abort(code, failure.error)
    raise AssertionError("an aborted call goes no further")


class Places:
    """Room for few that may each hold a whole message; for the event loop alone.

    Parameters
    ----------
    most
        How many there are.
    what
        Who has them, for people.
    """

    def __init__(self, most: int, what: str) -> None:
        self._most = most
        self._what = what
        self._taken = 0
        self._closed = False
        # what ends each that waits for a message, and since when; the longest first
        self._waiting: dict[asyncio.Future[PolydomError], float] = {}

    def close(self) -> None:
        """Give none any more; who waits in one ends with NotReady."""
        self._closed = True
        for ended in self._waiting:
            if not ended.done():
                ended.set_result(_stopping())

    @contextlib.contextmanager
    def take(self) -> Iterator[list["asyncio.Task[Any]"]]:
        """Have a place, and a list for what reads a message there.

        Where there is none, who has waited longest gives way. A place is free again
        once the last message is out of it.

        Raises
        ------
        Overloaded
            If none has waited for `LEAST_S`.
        NotReady
            If none is given any more.
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
        self, there: "asyncio.Future[None]", within_s: float | None = None
    ) -> None:
        """Wait in a place until a message is there, for at most so many seconds.

        Raises
        ------
        Overloaded
            If it gives way to others.
        ReceiveTimeout
            If it is not there in time.
        NotReady
            If places are given no more.
        """
        if self._closed:
            raise _stopping()
        ended = asyncio.get_running_loop().create_future()
        self._waiting[ended] = time.monotonic()
        try:
            await asyncio.wait(
                (there, ended), timeout=within_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            self._waiting.pop(ended, None)
        if there.done():
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
    """Reads messages, few at a time; for the event loop alone.

    Parameters
    ----------
    most
        Messages that may be on their way in for requests, and as many for streams.
    longest
        Bytes of a message, at most.

    Attributes
    ----------
    streams
        Room for streams, while they last.
    size
        Bytes that came since the start, or may have come.
    """

    def __init__(self, most: int, longest: int) -> None:
        quick = max(1, most // 2)
        self._quick = asyncio.Semaphore(quick)
        self._slow = Places(max(1, most - quick), "requests")
        self.streams = Places(most, "streams")
        self.size = 0
        self._longest = longest
        self._next_s = 0.0  # when another message may be copied

    async def request(self, context: Any) -> Received:
        """Read the one message of a call.

        What does not come at once needs a place; few have one.

        Raises
        ------
        BadInput
            If the call has none.
        Overloaded, ReceiveTimeout
            If it cannot have a place, gives way, or is not there in time.
        """
        await self._have_turn()
        there, reading = self._begin(context)
        held = [reading]
        try:
            began_s = time.monotonic()
            await asyncio.wait((there,), timeout=QUICK_S)
            if not there.done() and time.monotonic() - began_s > 2 * QUICK_S:
                # the loop was late, and has not looked yet
                await asyncio.wait((there,), timeout=QUICK_S)
            if there.done():
                await _settled(reading)
            held.clear()
        finally:
            _when_done(held, self._quick.release)
        if not there.done():
            with self._slow.take() as readings:
                readings.append(reading)
                await self._wait(self._slow, there, RECEIVE_S)
                await _settled(reading)
        received = reading.result()
        if received is None:
            raise BadInput("the call has no message")
        return received

    async def _have_turn(self) -> None:
        """Wait until few enough begin, which is soon."""
        if not self._quick.locked():
            await self._quick.acquire()
            return
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._quick.acquire()
        except TimeoutError:
            raise Overloaded("more requests came than can be read in time") from None

    async def next(
        self, context: Any, readings: "list[asyncio.Task[Any]]"
    ) -> Received | None:
        """Read the next message of a stream that has a place; None after the last.

        `readings` are those of its place.

        Raises
        ------
        Overloaded, NotReady
            If it gives way to another stream, or the server stops.
        """
        there, reading = self._begin(context)
        readings[:] = [reading]
        await self._wait(self.streams, there)
        await _settled(reading)
        return reading.result()

    async def _wait(
        self,
        places: Places,
        there: "asyncio.Future[None]",
        within_s: float | None = None,
    ) -> None:
        try:
            await places.wait(there, within_s)
        except (PolydomError, asyncio.CancelledError):
            self.size += self._longest  # nobody knows how much of it had come
            raise

    def _begin(
        self, context: Any
    ) -> tuple["asyncio.Future[None]", "asyncio.Task[Received | None]"]:
        """Begin to read; what tells that a message is there, and what has it.

        It is never cancelled: what had come meanwhile would not be given back.
        """
        there = asyncio.get_running_loop().create_future()
        reading = asyncio.ensure_future(self._read(context, there))
        reading.add_done_callback(_forget)
        return there, reading

    async def _read(
        self, context: Any, there: "asyncio.Future[None]"
    ) -> Received | None:
        try:
            received: Any = await self._taking_turns(context.read(), there)
        finally:
            if not there.done():
                there.set_result(None)
        if received is grpc.aio.EOF:
            return None
        self.size += len(received.data)
        return cast(Received, received)

    @types.coroutine
    def _taking_turns(
        self, reading: Any, there: "asyncio.Future[None]"
    ) -> Generator[Any, Any, Any]:
        """Await a message, and copy it once that takes the loop too little of its time.

        To copy a long one takes milliseconds, and all that came together would be
        copied in the same turn of the loop.
        """
        asked_s = time.monotonic()
        try:
            yield reading.send(None)
        except StopIteration as done:
            return done.value
        except BaseException:
            reading.close()
            raise
        there.set_result(None)
        begun_s = time.monotonic()
        if begun_s - asked_s > QUICK_S:  # what came sooner is short
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
    """Release what the last of these holds, once it does."""
    if readings and not readings[-1].done():
        readings[-1].add_done_callback(lambda _: release())
    else:
        release()


def _stopping() -> NotReady:
    return NotReady("the server is about to stop")


def _forget(reading: "asyncio.Future[Any]") -> None:
    """Take note of what became of a message for which nobody may wait any more."""
    if not reading.cancelled():
        reading.exception()
