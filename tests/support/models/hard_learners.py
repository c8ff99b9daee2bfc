"""Learners that are hard on their process; apart, so that workers start quickly."""

import ctypes
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier


def end_by_exit() -> None:
    os._exit(3)


def end_by_segfault() -> None:
    ctypes.string_at(0)


def hang() -> None:
    time.sleep(600)  # stopped long before


def exit_and_leave_a_child() -> None:
    """End, but leave a process that holds all that this one had open."""
    if os.fork():
        os._exit(4)
    time.sleep(600)


def raise_what_cannot_be_sent() -> None:
    raise Awkward("one", "two")


class Awkward(Exception):
    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


class Does(DummyClassifier):  # type: ignore[misc]
    """Does something on more than `rows` rows, instead of learning."""

    def __init__(self, what: Any = None, rows: int = 0) -> None:
        super().__init__()
        self.what = what
        self.rows = rows

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        if len(X) > self.rows:
            self.what()
        return super().fit(X, y)


class Writes(DummyClassifier):  # type: ignore[misc]
    """Knows a file that what happens to it is written to."""

    def __init__(self, path: Path | None = None) -> None:
        super().__init__()
        self.path = path


class Counted(Writes):
    """Writes a line for every training."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        assert self.path is not None
        with self.path.open("a") as file:
            file.write(f"{len(X)}\n")
        return super().fit(X, y)


class Draws(Writes):
    """Writes what NumPy draws when none is seeded, and waits for two others to."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        assert self.path is not None
        self.path.write_text(str(np.random.random()))  # noqa: NPY002
        while len(list(self.path.parent.iterdir())) < 3:
            time.sleep(0.01)
        return super().fit(X, y)


class KeepsALambda(DummyClassifier):  # type: ignore[misc]
    """Cannot come back once it is fitted."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        self.kept_ = lambda: None
        return super().fit(X, y)


class StartsAProcess(Writes):
    """Starts a process that outlives its training, and then hangs."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        assert self.path is not None
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        self.path.write_text(str(child.pid))
        time.sleep(600)
