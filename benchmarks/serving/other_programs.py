"""Programs that never sleep, beside what is measured."""

import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager

from .. import report


def spin(core: int | None, nice: int) -> None:
    """Never sleep."""
    os.nice(nice)
    if core is not None:
        report.pin(core)
    while True:
        sum(range(10_000))


@contextmanager
def busy(count: int = 1, core: int | None = None, nice: int = 0) -> Iterator[None]:
    """Run so many meanwhile: on a core or on all, as nice as is said."""
    context = multiprocessing.get_context("spawn")
    programs = [
        context.Process(target=spin, args=(core, nice), daemon=True)
        for _ in range(count)
    ]
    for program in programs:
        program.start()
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.join()
