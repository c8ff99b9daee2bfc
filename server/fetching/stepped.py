"""Run a coroutine, and measure for how long each of its steps holds the event loop."""

import time
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")


@types.coroutine
def stepped(
    coroutine: Coroutine[Any, Any, T], held: Callable[[float], object]
) -> Generator[Any, Any, T]:
    """Await a coroutine; call `held` with the seconds of each of its steps.

    A step is what runs between two waits; nothing else runs on the event loop then. So
    `time.sleep(1)` in an asynchronous function is a step of a second. Steps of other
    tasks, of callbacks and of threads that the coroutine starts are not measured, even
    if they hold the loop.
    """
    error: BaseException | None = None
    while True:
        began_s = time.perf_counter()
        try:
            if error is None:
                waits_for = coroutine.send(None)
            else:
                waits_for = coroutine.throw(error)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        finally:
            held(time.perf_counter() - began_s)
        error = None
        try:
            yield waits_for
        except BaseException as thrown:  # for the coroutine, as CancelledError is
            error = thrown
