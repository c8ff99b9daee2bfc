"""The three text features of tiny_features.py, of which the first takes its time."""

import time

from polydom.features import feature, step


@step(kind="text")
def lowered(text: str) -> str:
    return text.lower()


@feature(kind="text")
def length(text: str) -> list[int]:
    """Take as many milliseconds as the text begins with, and 12 if it does not."""
    first = text.split(" ")[0]
    end_s = time.thread_time() + (int(first) if first.isdigit() else 12) / 1e3
    while time.thread_time() < end_s:
        pass
    return [len(text)]


@feature(needs=[lowered])
def marks(text: str) -> list[int]:
    return [text.count("!"), text.count("$")]


@feature(needs=[lowered])
def words(text: str) -> list[int]:
    return [text.count("free") + text.count("win")]
