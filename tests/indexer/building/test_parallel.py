"""Calls in processes, and processes that are killed."""

import os
import signal
import sys

import pytest
from joblib import delayed

from polydom.features.errors import BadInput, WorkerLost
from polydom.indexer.building.parallel import in_processes


def double(number: int) -> int:
    if number < 0:
        raise BadInput(f"{number} is negative")
    return 2 * number


def die() -> None:
    """End as a process does that the kernel picks when memory runs out."""
    if sys.platform == "win32":
        os._exit(9)
    os.kill(os.getpid(), signal.SIGKILL)


def die_at_two(number: int) -> int:
    if number == 2:
        die()
    return number


@pytest.mark.parametrize("workers", [1, 2])
def test_in_processes_gives_results_in_order(workers: int) -> None:
    calls = [delayed(double)(number) for number in range(20)]
    assert list(in_processes(calls, workers, stage="doubling")) == [*range(0, 40, 2)]
    found = in_processes(calls, workers, stage="doubling", ordered=False)
    assert sorted(found) == [*range(0, 40, 2)]
    assert list(in_processes([], workers, stage="doubling")) == []


def test_in_processes_passes_on_what_a_call_raises() -> None:
    calls = [delayed(double)(number) for number in (1, -1)]
    with pytest.raises(BadInput, match="-1 is negative"):
        list(in_processes(calls, 2, stage="doubling"))


@pytest.mark.parametrize("ordered", [True, False])
def test_in_processes_says_which_stage_lost_a_process(ordered: bool) -> None:
    calls = [delayed(die_at_two)(number) for number in range(4)]
    with pytest.raises(WorkerLost, match="memory ran out; use fewer workers") as lost:
        list(in_processes(calls, 2, stage="training sets", ordered=ordered))
    assert lost.value.stage == "training sets"
    assert "run it again" in lost.value.cure
    again = in_processes([delayed(double)(1)] * 3, 2, stage="training sets")
    assert list(again) == [2, 2, 2]
