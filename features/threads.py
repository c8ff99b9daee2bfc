"""Threads of numeric libraries: one is enough for an item, and for a training."""

import sys
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[object]:
    """Hold the numeric libraries that are loaded to one thread inside a `with`.

    `threadpool_limits` looks for them each time, in some milliseconds; this again only
    where something was imported since.
    """
    held: AbstractContextManager[object] = _libraries(len(sys.modules)).limit(limits=1)
    return held


@lru_cache(maxsize=1)
def _libraries(modules: int) -> "ThreadpoolController":
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
