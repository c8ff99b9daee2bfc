"""Waiting on the event loop for work that may never end."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


async def in_own_thread(work: Callable[[], T]) -> T:
    """Do some work in a thread that ends with the process; give or raise its result.

    The event loop's own threads are waited for when it ends, so that a file system
    that does not answer would keep the process from stopping.
    """
    done: Future[T] = Future()
    done.set_running_or_notify_cancel()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # whatever it is, the waiting task gets it
            done.set_exception(error)

    threading.Thread(target=run, name="polydom-load", daemon=True).start()
    return await asyncio.wrap_future(done)
