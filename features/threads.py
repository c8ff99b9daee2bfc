"""One thread for numeric libraries: enough for one item, or for one training."""

import sys
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[object]:
    """Limit the loaded numeric libraries to one thread, inside a `with` statement.

    `threadpool_limits` would search for the libraries at each call, for milliseconds.
    Here the search runs again only after a module was imported.
    """
    held: AbstractContextManager[object] = _libraries(len(sys.modules)).limit(limits=1)
    return held


@lru_cache(maxsize=1)
def _libraries(modules: int) -> "ThreadpoolController":
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
