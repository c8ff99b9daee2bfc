"""Work done beside the event loop, by threads of its own."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from ..schema.bounds import LARGE
from .work_queue import settle

T = TypeVar("T")
# One: several would leave the loop a part of the interpreter each, and be no faster.
_reader = ThreadPoolExecutor(1, "polydom-read")


async def run_off_loop(read: Callable[..., T], *arguments: object, size: int) -> T:
    """Call `read`; where there are many bytes not on the loop, and in short pieces."""
    if size <= LARGE:
        return read(*arguments)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_reader, read, *arguments)


async def run_in_thread(work: Callable[[], T]) -> T:
    """Do some work in a thread that ends with the process; give or raise its result.

    The event loop's own threads would keep a process from stopping.
    """
    done: Future[T] = Future()
    thread = threading.Thread(
        target=settle, args=(done, work), name="polydom-load", daemon=True
    )
    thread.start()
    return await asyncio.wrap_future(done)
