"""The three text features of tiny_features.py, on a machine as slow as it is told.

What they take is counted by the thread, and so the same beside whatever else runs.
"""

import os
import time

from polydom.features import feature, step


def spin(seconds: float) -> None:
    slowness = float(os.environ.get("SLOWNESS", "1"))
    end_s = time.thread_time() + slowness * seconds
    while time.thread_time() < end_s:
        pass


@step(kind="text")
def lowered(text: str) -> str:
    spin(1.2e-4)
    return text.lower()


@feature(kind="text")
def length(text: str) -> list[int]:
    spin(2e-4)
    return [len(text)]


@feature(needs=[lowered])
def marks(text: str) -> list[int]:
    spin(2.4e-4)
    return [text.count("!"), text.count("$")]


@feature(needs=[lowered])
def words(text: str) -> list[int]:
    spin(8e-4)
    return [text.count("free") + text.count("win")]
