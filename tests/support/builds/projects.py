"""Small real projects that build in seconds."""

import json
from pathlib import Path

import numpy as np

HAM = "see you at home later then we can talk about the plans for dinner tonight"
SPAM = "WIN a FREE prize NOW!!! call 0800 to claim your cash reward www.win.example"

TEXTS = """\
seed = 1
workers = 1
learner = "logistic"

[data]
texts = "mails.jsonl"

[features]
use = ["text_length", "hashed_words"]

[costs]
items = 8
repeats = 2
"""


def texts(folder: Path, count: int = 120, project: str = TEXTS) -> Path:
    """A project of short and long messages, half of them spam; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    lines = []
    for i in range(count):
        words = (SPAM if i % 2 else HAM).split()
        length = int(rng.integers(5, 400))
        text = " ".join(words[w] for w in rng.integers(0, len(words), length))
        lines.append(json.dumps({"text": text, "label": "spam" if i % 2 else "ham"}))
    (folder / "mails.jsonl").write_text("\n".join(lines))
    (folder / "PROJECT.toml").write_text(project)
    return folder


# Work in proportion to an image's rows alone, and to its columns alone.
SIDES = """\
from polydom.features.ready_made.image_header import open_picture
from polydom.features.feature import feature


def spin(times):
    for _ in range(int(times)):
        pass


@feature(kind="image")
def rows(data):
    width, height = open_picture(data).size
    spin(100 * height)
    return [height / width]


@feature(kind="image")
def columns(data):
    width, height = open_picture(data).size
    spin(100 * width)
    return [width]
"""


def shapes(folder: Path, size: str) -> Path:
    """A project of images from very wide to very high; the latter are one class."""
    from PIL import Image

    rng = np.random.default_rng(0)
    sides = np.geomspace(8, 1024, 7).astype(int)
    for number, (width, height) in enumerate((a, b) for a in sides for b in sides):
        kind = "high" if height + rng.integers(2) > width else "wide"
        path = folder / "photos" / kind / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (int(width), int(height)), number).save(path)
    (folder / "sides.py").write_text(SIDES)
    (folder / "PROJECT.toml").write_text(
        f"""\
workers = 1
learner = "logistic"

[data]
images = "photos"

[features]
files = ["sides.py"]

[costs]
items = 40
repeats = 2
quantile = 0.9
size = {size}
"""
    )
    return folder
