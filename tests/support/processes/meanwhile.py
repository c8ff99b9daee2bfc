"""Work that goes on beside what is looked at."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def meanwhile(step: Callable[[], object], every_s: float) -> Iterator[None]:
    """Take a step again and again in a thread; what goes wrong in it is raised."""
    done = threading.Event()

    def work() -> None:
        while not done.wait(every_s):
            step()

    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work)
        try:
            yield
        finally:
            done.set()
        working.result()
