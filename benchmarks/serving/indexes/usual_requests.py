"""Indexes of texts and images, and usual requests for each."""

import base64
import json
import os
from pathlib import Path

import numpy as np

from ... import report

TEXTS, IMAGES = "texts.pdx", "digits.pdx"
WORDS, LONGEST = 3000, 120


def write_indexes(folder: Path) -> dict[str, list[bytes]]:
    """Build an index of texts and the demo's; bodies to ask each for, by its name."""
    from polydom.indexer import BudgetClassifier, Index

    from .demo_index import built

    built(folder)
    texts, labels = draw_texts(1500)
    model = BudgetClassifier(kind="text", search_budget_s=20).fit(texts, labels)
    model.save(folder / TEXTS)
    package = Index.load(folder / IMAGES).package
    assert package is not None
    images = [base64.b64encode(one).decode() for one in package.meta["samples"]]
    return {
        TEXTS: bodies_of("text", draw_texts(300)[0]),
        IMAGES: bodies_of("image_base64", images),
    }


def draw_texts(count: int) -> tuple[list[str], list[str]]:
    """Texts of drawn words, some of them likelier in one of two classes."""
    draw = np.random.default_rng(count)
    labels = draw.integers(0, 2, count)
    texts = []
    for label in labels:
        words = draw.zipf(1.3, draw.integers(5, LONGEST)) % WORDS
        words = np.append(words, draw.integers(0, 40, 3) + 40 * label)
        texts.append(" ".join(f"w{word}" for word in words))
    return texts, [("ham", "spam")[label] for label in labels]


def bodies_of(name: str, items: list[str]) -> list[bytes]:
    """Requests for items, each with the largest budget."""
    return [json.dumps({name: item, "budget_ms": 1000}).encode() for item in items]


def pin_to(pid: int, every: bool) -> None:
    """Have a process on the last core, or on every one, where that can be said."""
    if report.CORES:
        os.sched_setaffinity(pid, report.CORES if every else {max(report.CORES)})
