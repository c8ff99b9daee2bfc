"""Answers handed over to be sent, and counted as of when they were written."""

import asyncio
from collections.abc import Awaitable, Callable

from ..engine.request import Caller

Count = Callable[[float], object]


async def hand_over(
    sending: Awaitable[object], caller: Caller, now: Callable[[], float], count: Count
) -> None:
    """Send an answer, then `count` it with the time at which it was written.

    An event loop may write what it was given only once it has called all that is ready;
    so much later is the answer out. But how long a caller leaves answers unread is not
    the server's time: where that shows, it counts when the answer was handed over.
    """
    handed_s = now()
    await sending
    if caller.prompt:
        asyncio.get_running_loop().call_soon(lambda: count(now()))
    else:
        count(handed_s)
