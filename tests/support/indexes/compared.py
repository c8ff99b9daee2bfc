"""The index of people in `records.py`, with distributions of its build's items."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from polydom.indexer.building.describe_inputs import shares_of
from polydom.indexer.index.index import Index
from polydom.indexer.index.input_reference import BuiltInputs, ColumnShares
from tests.support.indexes import records

JOBS = ("clerk", "nurse", "pilot")
COLUMNS = {"age": ("person", 0), "height": ("person", 1), "job": ("work", 0)}


def draw_people(count: int, seed: int) -> list[dict[str, Any]]:
    """Draw people like those of the build; a tenth tells no height."""
    draw = np.random.default_rng(seed)
    people: list[dict[str, Any]] = [
        {
            "age": float(draw.normal(40, 10)),
            "height": float(draw.normal(1.7, 0.1)),
            "job": str(draw.choice(JOBS)),
        }
        for _ in range(count)
    ]
    for one in people:
        if draw.random() < 0.1:
            one["height"] = None
    return people


def inputs_of_people(count: int = 3000) -> BuiltInputs:
    """Describe drawn people, as a build does."""
    people, told = draw_people(count, 0), []
    for name, (feature, column) in COLUMNS.items():
        values = [one[name] for one in people]
        if name == "job":
            values = [JOBS.index(job) for job in values]
        rows: NDArray[np.float64] = np.array(values, np.float64)
        own = shares_of(np.asarray(rows.astype(np.float32), np.float64))
        told.append(
            ColumnShares(
                own.shares, own.edges, own.values, feature=feature, column=column
            )
        )
    answers = shares_of(np.asarray(np.arange(count) % 2, np.float64), bins=0)
    return BuiltInputs(count, told, [], answers)


def make_index() -> Index:
    """Make the index above."""
    index = records.make_index()
    assert index.package is not None
    meta = dict(index.package.meta) | {
        "inputs": msgspec.to_builtins(inputs_of_people())
    }
    return replace(index, package=replace(index.package, meta=meta))


def save(path: Path) -> Path:
    """Save the index to a file; return its path."""
    make_index().save(path)
    return path
