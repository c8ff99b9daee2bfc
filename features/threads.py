"""Limit numeric libraries to one thread, which is enough for one item or training."""

import sys
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[object]:
    """Limit the loaded numeric libraries to one thread, inside a `with` statement.

    `threadpool_limits` spends milliseconds on finding the libraries at each call. This
    function looks for them again only if modules were imported since the last call.
    """
    # after an import the number differs, so that the cache does not know it
    held: AbstractContextManager[object] = _libraries(len(sys.modules)).limit(limits=1)
    return held


@lru_cache(maxsize=1)
def _libraries(modules: int) -> "ThreadpoolController":
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
