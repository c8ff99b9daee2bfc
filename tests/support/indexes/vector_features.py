"""Features and the fetch of the index in `vectors`, which do what a text says.

A text begins with the seconds until its vector comes.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from polydom.features import feature, fetch


@fetch(kind="text", width=1, batch=1, at_most_ms=60_000, name="meaning")
async def find_meaning(texts: Sequence[Any], left_s: float) -> list[list[float]]:
    await asyncio.sleep(float(texts[0].split()[0]))
    return [[float(text.count("!"))] for text in texts]


@feature(kind="text")
def length(text: str) -> list[int]:
    return [len(text)]


@feature(kind="text", fails="without")
def marks(text: str) -> list[int]:
    if "marks fail" in text:
        raise ValueError("no marks today")
    return [text.count("$")]


@feature(kind="text")
def words(text: str) -> list[int]:
    time.sleep(0.2 if "slow" in text else 0.0)
    return [text.count("free") + text.count("win")]


@feature(kind="text")
def digits(text: str) -> list[int]:
    time.sleep(0.2 if "slow" in text else 0.0)
    return [sum(map(str.isdigit, text))]


@feature(needs=[find_meaning], fails="without")
def loudness(vector: Any) -> list[float]:
    if vector[0] > 5:
        raise ValueError("too loud")
    return [vector[0] ** 2]
