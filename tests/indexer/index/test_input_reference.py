"""Distributions in an index are of its own parts, or the index is refused."""

import copy
import math
from typing import Any

import pytest

from polydom.features.errors import BadIndexFile
from polydom.indexer.index.input_reference import (
    MOST_COLUMNS,
    MOST_VALUES,
    BuiltInputs,
    check_inputs,
    inputs_of,
)

WIDTHS = {"person": 2, "words": 1}
TOLD: dict[str, Any] = {
    "items": 90,
    "columns": [
        {"feature": "person", "column": 1, "shares": [0.1, 0.4, 0.5], "edges": [3.5]},
        {"feature": "words", "shares": [0.0, 0.75, 0.25, 0.0], "values": [0.0, 2.0]},
        {"feature": "person", "column": 0, "shares": [1.0, 0.0]},
    ],
    "sizes": [{"shares": [0.0, 0.5, 0.5], "edges": [100.0]}],
    "labels": {"shares": [0.0, 0.5, 0.5, 0.0], "values": [0.0, 1.0]},
    "vocabulary": "words",
    "unseen_words": 0.1,
}
LABELS = ("ham", "spam")


def check(told: Any) -> BuiltInputs:
    inputs = inputs_of({"inputs": told})
    assert inputs is not None
    check_inputs(inputs, WIDTHS, LABELS)
    return inputs


def test_distributions_of_an_index_are_read() -> None:
    assert check(TOLD).items == 90
    assert check({"items": 1}).columns == []
    assert inputs_of({}) is None


# where, what is there instead, and what is said of it
DAMAGED: list[tuple[str, Any, str]] = [
    ("items", 0, "items"),
    ("items", 0.5, "items"),
    ("columns", TOLD["columns"] * MOST_COLUMNS, "columns"),
    ("columns", TOLD["columns"] * 2, "a column has two distributions"),
    ("columns.0.feature", "nobody", "of no column"),
    ("columns.0.column", 2, "of no column"),
    ("columns.0.column", -1, "column"),
    ("columns.0.shares", [0.1, 0.9], "2 shares of 3 bins"),
    ("columns.0.shares", [0.1, 0.4, 0.4], "do not add up"),
    ("columns.0.shares", [0.1, math.nan, 0.5], "do not add up|shares"),
    ("columns.0.shares", [0.0] * (MOST_VALUES + 3), "shares"),
    ("columns.0.shares.0", 1.5, "shares"),
    ("columns.0.edges.0", math.nan, "no number|edges"),
    ("columns.0.edges.0", math.inf, "edges"),
    ("columns.0.values", [1.0], "both edges and values"),
    ("columns.1.values", [2.0, 0.0], "in no order"),
    ("columns.1.values", [2.0, 2.0], "in no order"),
    ("sizes", TOLD["sizes"] * 3, "sizes"),
    ("sizes.0.edges", [], "3 shares of 2 bins"),
    ("labels.values", [0.0, 2.0], "other classes"),
    ("labels.values", [0.0, 0.5], "other classes"),
    ("labels.shares", "all", "labels"),
    ("vocabulary", "person of no name", "vocabulary"),
    ("unseen_words", 2, "unseen_words"),
]


@pytest.mark.parametrize(("where", "value", "said"), DAMAGED)
def test_other_distributions_are_refused(where: str, value: Any, said: str) -> None:
    told = copy.deepcopy(TOLD)
    *path, last = (int(key) if key.isdigit() else key for key in where.split("."))
    inside: Any = told
    for key in path:
        inside = inside[key]
    inside[last] = value
    with pytest.raises(BadIndexFile, match=said):
        check(told)
