"""Small real projects that build in seconds."""

import json
from pathlib import Path

import numpy as np

HAM = "see you at home later then we can talk about the plans for dinner tonight"
SPAM = "WIN a FREE prize NOW!!! call 0800 to claim your cash reward www.win.example"

TEXTS = """\
seed = 1
workers = 1

[data]
texts = "mails.jsonl"

[features]
use = ["text_length", "punctuation", "casing", "hashed_words"]

[costs]
items = 12
repeats = 3
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
