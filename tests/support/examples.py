"""How many examples are drawn: fewer where every kernel is interpreted."""

import os

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


def few(count: int) -> int:
    """So many, or a fourth: the interpreted run repeats what the compiled one draws."""
    return count // 4 if INTERPRETED else count
