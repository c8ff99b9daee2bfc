"""Labelled texts of about a kilobyte, of two kinds that overlap."""

import json
import random
from pathlib import Path

from polydom.indexer.building.project import Project

LEARNED = 'use = ["text_length", "punctuation", "casing", "learned_words"]'
PROJECT = """\
seed = 1
exits = "off"
learner = {{ name = "logistic" }}

[data]
texts = "texts.jsonl"

[features]
{features}

[search]
method = "greedy-acc"
"""


def write_texts(folder: Path, count: int, features: str = LEARNED) -> Project:
    """Write so many, of 20 to 300 words, and a project with features of them."""
    folder.mkdir(parents=True)
    draw = random.Random(0)
    words = [f"w{number}" for number in range(30_000)]
    kinds = words[:20_000], words[10_000:]
    with (folder / "texts.jsonl").open("w") as file:
        for number in range(count):
            text = " ".join(draw.choices(kinds[number % 2], k=draw.randint(20, 300)))
            label = "ab"[number % 2]
            file.write(json.dumps({"text": text, "label": label}) + "\n")
    (folder / "PROJECT.toml").write_text(PROJECT.format(features=features))
    return Project.load(folder / "PROJECT.toml")
