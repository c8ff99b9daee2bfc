"""The three text features of tiny_features.py, of which the first takes 12 ms."""

import time

from polydom.features import feature, step

SPIN_S = 12e-3


@step(kind="text")
def lowered(text: str) -> str:
    return text.lower()


@feature(kind="text")
def length(text: str) -> list[int]:
    end_s = time.thread_time() + SPIN_S
    while time.thread_time() < end_s:
        pass
    return [len(text)]


@feature(needs=[lowered])
def marks(text: str) -> list[int]:
    return [text.count("!"), text.count("$")]


@feature(needs=[lowered])
def words(text: str) -> list[int]:
    return [text.count("free") + text.count("win")]
