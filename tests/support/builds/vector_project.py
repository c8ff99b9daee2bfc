"""A small project of texts, of which two fetches bring vectors."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from polydom.indexer.building.project import Project

CALLS = '''\
"""The project's fetches, and a feature that needs one of them."""

import asyncio
import pathlib

import numpy as np

from polydom.features import feature, fetch

calls = pathlib.Path(__file__).with_name("calls")


def meaning(text):
    """Return a number that the letters of a text do not show."""
    return float(int(text.split()[-1], 16) % 7) - 3


@fetch(kind="text", width=4, batch=16, keep_s=60)
async def embedding(texts, left_s):
    with calls.open("a") as file:
        file.writelines(f"{text}\\n" for text in texts)
    what = texts[0].split()[0]
    await asyncio.sleep({"never": 300, "slow": 0.3}.get(what, 0.002))
    if what == "raises":
        raise OSError("no route")
    wrong = {
        "few": [],
        "narrow": [[1.0, 2.0]] * len(texts),
        "nan": [[1.0, float("nan"), 0, 0]] * len(texts),
        "words": ["abcd"] * len(texts),
        "nothing": [None] * len(texts),
    }
    if what in wrong:
        return wrong[what]
    return np.array([[meaning(text), len(text), 1, 0] for text in texts])


@fetch(kind="text", width=1)
async def mood(texts, left_s):
    await asyncio.sleep(0.004)
    return [[float(text.count("!"))] for text in texts]


@feature(needs=[embedding])
def strength(vector):
    return [abs(float(vector[0]))]


@feature(kind="text")
def shouts(text):
    return [text.count("A")]
'''


def terms() -> dict[str, Any]:
    """Content of the project file, which tests change."""
    return {
        "data": {"texts": "texts.jsonl"},
        "features": {"use": ["shouts", "strength", "mood"], "files": ["calls.py"]},
        "fetches": {
            "embedding": {"from": "calls.py", "price": {"usd": 1e-5}},
            "mood": {"from": "calls.py"},
        },
        "learner": {"name": "logistic"},
        "search": {"held_out": 0.25},
        "costs": {"items": 8, "repeats": 2},
        "exits": "off",
        "workers": 1,
    }


def write_files(folder: Path, texts: int = 300) -> None:
    """Write the texts and the calls.

    The label is the sign of the text's meaning and its shouts together.
    """
    rng = np.random.default_rng(0)
    with (folder / "texts.jsonl").open("w") as file:
        for _ in range(texts):
            number, shouts = rng.integers(1 << 30), rng.integers(0, 7)
            told = "!" * int(rng.integers(3))
            text = f"{'A' * shouts}{told} say {number:x}"
            meaning = int(number) % 7 - 3
            label = "good" if meaning + (shouts - 3) > 0 else "bad"
            file.write(json.dumps({"text": text, "label": label}) + "\n")
    (folder / "calls.py").write_text(CALLS)


def make_project(folder: Path, **change: Any) -> Project:
    """Write the files, and make the project; `change` replaces tables of its file."""
    write_files(folder)
    return Project.from_mapping(terms() | change, folder=folder)
