"""Memory that was freed, given back to the system.

What many threads allocate in small pieces and free comes to lie between what is still
in use, where the C library keeps it for later: hundreds of megabytes, after many long
requests at once.
"""

import asyncio
import ctypes
import sys
from collections.abc import Callable

from ..runtime.work_queue import run_in_thread

# Bytes of requests after which it is worth while, and seconds between two looks.
WORTH, LOOK_S = 16 << 20, 0.5


def _trim_of_c_library() -> Callable[[int], int] | None:
    """Find what gives memory back; None where the C library is not glibc."""
    if sys.platform != "linux":
        return None
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


_trim = _trim_of_c_library()


async def give_back_spare(size: Callable[[], int]) -> None:
    """Give memory back whenever much came, until cancelled.

    It takes about 0.1 ms for each megabyte, in a thread.

    Parameters
    ----------
    size
        Says how many bytes of requests came since the start.
    """
    if _trim is None:
        return
    trim, before, again = _trim, 0, False
    while True:
        await asyncio.sleep(LOOK_S)
        came = size()
        if came - before >= WORTH or again:
            # once more, as what came last is still in use
            again = came != before
            before = came
            await run_in_thread(lambda: trim(0))
