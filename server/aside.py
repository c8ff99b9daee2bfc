"""Long reading, done beside the event loop by one thread."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from .bounds import LARGE

T = TypeVar("T")
# One: several would leave the loop a part of the interpreter each, and be no faster.
_reader = ThreadPoolExecutor(1, "polydom-read")


async def aside(read: Callable[..., T], *arguments: object, size: int) -> T:
    """Call `read`, which takes long where there are many bytes; not on the loop then.

    It must be made of short pieces: while one runs the interpreter serves nobody else.
    """
    if size <= LARGE:
        return read(*arguments)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_reader, read, *arguments)
