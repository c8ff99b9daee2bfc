"""Calls spread over processes, and what to say when one of them is killed."""

from collections.abc import Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from polydom.features.errors import WorkerLost

CURE = (
    "use fewer workers (`--workers`) or smaller items, and run it again: what is done "
    "is kept in the cache"
)


def in_processes(
    calls: Iterable[Any],
    workers: int,
    *,
    stage: str,
    ordered: bool = True,
) -> Iterator[Any]:
    """Carry out joblib's delayed calls in processes, and give what they return.

    Parameters
    ----------
    calls
        As `joblib.delayed` makes them; taken as processes become free.
    workers
        Processes; 1 stays in this one.
    stage
        What they do, for the error.
    ordered
        Give results in the order of the calls, not as they come.

    Raises
    ------
    WorkerLost
        If a process ended before it answered, as one that is out of memory does.
    """
    from joblib import Parallel

    kind = "generator" if ordered else "generator_unordered"
    try:
        yield from Parallel(workers, return_as=kind)(calls)
    except BrokenProcessPool as error:  # joblib's own is one too
        raise WorkerLost(stage, CURE) from error
