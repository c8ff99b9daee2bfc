"""Keeping what libraries print apart from what a command answers."""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress


@contextmanager
def chatter_to_stderr() -> Iterator[None]:
    """Send to standard error what is printed meanwhile, by Python or compiled code.

    Also by processes started meanwhile. Standard output then holds the command's own
    answer alone, which a script may read.
    """
    _flush()
    try:
        kept = os.dup(1)
    except OSError:  # the caller closed it
        with redirect_stdout(sys.stderr):
            yield
        return
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _flush()
        os.dup2(kept, 1)
        os.close(kept)


def _flush() -> None:
    """Write out what waits in the buffers of Python and of the C library."""
    for stream in (sys.stdout, sys.__stdout__):
        if stream is not None:
            stream.flush()
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).fflush(None)
