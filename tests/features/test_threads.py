"""Threads of numeric libraries, of those too that are imported later."""

import subprocess
import sys

from threadpoolctl import threadpool_info, threadpool_limits

from polydom.features.threads import one_thread

LATER = """\
import os
os.environ.update(OMP_NUM_THREADS="2", OPENBLAS_NUM_THREADS="2")
import numpy
from threadpoolctl import threadpool_info
from polydom.features.threads import one_thread

def threads():
    return {pool["filepath"]: pool["num_threads"] for pool in threadpool_info()}

with one_thread():
    assert set(threads().values()) == {1}
before = threads()
assert set(before.values()) == {2}
import sklearn.ensemble
assert threads().keys() > before.keys()
with one_thread():
    assert set(threads().values()) == {1}, threads()
assert set(threads().values()) == {2}
"""


def counts() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info()}


def test_one_thread_holds_within_and_is_given_back() -> None:
    for _ in range(2):
        with threadpool_limits(2):
            with one_thread():
                with one_thread():
                    assert counts() == {1}
                assert counts() == {1}
            assert counts() == {2}


def test_a_library_that_was_imported_meanwhile_is_held_too() -> None:
    subprocess.run([sys.executable, "-c", LATER], check=True)
