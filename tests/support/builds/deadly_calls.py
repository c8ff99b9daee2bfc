"""Calls that end their process; apart, so that workers start quickly."""

import os
import signal
import sys
from pathlib import Path


def die() -> None:
    """End as a process does that the kernel picks when memory runs out."""
    if sys.platform == "win32":
        os._exit(9)
    os.kill(os.getpid(), signal.SIGKILL)


def die_at_two(number: int) -> int:
    if number == 2:
        die()
    return number


def die_once(number: int, folder: Path) -> int:
    """Die with every third number, the first time that it comes."""
    came = folder / str(number)
    if number % 3 == 0 and not came.exists():
        came.touch()
        die()
    return number
