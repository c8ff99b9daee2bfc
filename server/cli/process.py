"""Settings of a command's process: output, Ctrl-C, garbage collection, messages."""

import ctypes
import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress

import typer

# Least seconds between two messages about compiling.
EVERY_S = 3.0
PYTHONS_OWN = gc.get_threshold()


def collect_seldom() -> None:
    """Make garbage collection rare while a command starts.

    Imports and loading create a million objects, and nearly all of them remain in use.
    """
    gc.set_threshold(20_000, 50, 100)


def collect_as_usual() -> None:
    """Restore Python's default thresholds of garbage collection, for a server."""
    gc.set_threshold(*PYTHONS_OWN)


@contextmanager
def interruptible(how_to_go_on: str) -> Iterator[None]:
    """If Ctrl-C interrupts the block, print `how_to_go_on` and exit with code 130."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"\ninterrupted; {how_to_go_on}", err=True)
        raise typer.Exit(130) from None


@contextmanager
def prints_to_stderr() -> Iterator[None]:
    """While the context is open, send the process's standard output to standard error.

    This includes the output of compiled code and of processes started in the block. So
    standard output holds only the command's own answer.
    """
    _flush()
    try:
        kept = os.dup(1)
    except OSError:  # standard output was closed by the caller
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
    for stream in (sys.stdout, sys.__stdout__):
        if stream is not None:
            stream.flush()
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).fflush(None)


class CompilingNotice:
    """Prints a message when the first kernel compiles, then every few seconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._count = 0
        self._said_s = 0.0

    def __call__(self, kernel: str) -> None:
        """Count a kernel that starts to compile, and print a message if one is due."""
        now_s = self._now()
        if not self._count:
            self._said_s = now_s
            self._say("compiling for this processor, once; it takes 5 to 15 s")
        elif now_s - self._said_s >= EVERY_S:
            self._said_s = now_s
            self._say(f"compiling still: {self._count} kernels are done")
        self._count += 1

    def _say(self, what: str) -> None:
        print(f"polydom: {what}", file=sys.stderr, flush=True)
