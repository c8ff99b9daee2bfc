"""What an estimator makes items of: arrays of any cells, tables, lists of things."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from polydom.features.errors import BadInput, BadItem
from polydom.indexer.estimators.items import items_of
from tests.support.three_kinds import picture


def array(rows: list[list[Any]]) -> NDArray[np.object_]:
    return np.array(rows, object)


def payloads(X: Any) -> list[Any]:
    return [item.payload for item in items_of(X)]


def test_columns_of_objects_are_words_or_numbers() -> None:
    X = array([["red", 1, None], [None, None, 2.5], [float("nan"), True, 3]])
    first, second, third = payloads(X)
    assert first == {"x0": "red", "x1": 1.0, "x2": None}
    assert second == {"x0": None, "x1": None, "x2": 2.5}
    assert third == {"x0": None, "x1": 1.0, "x2": 3.0}


def test_an_array_of_strings_has_words_alone() -> None:
    assert payloads(np.array([["a", "1"], ["b", "1"]])) == [
        {"x0": "a", "x1": "1"},
        {"x0": "b", "x1": "1"},
    ]


@pytest.mark.parametrize(
    ("X", "said"),
    [
        (array([["red", 0], [7, 0]]), "column 0 holds strings and, in row 1, int;"),
        (array([[0, 1j], [0, 1]]), "column 1 holds complex; numbers or strings"),
        (array([[0], [10**400]]), "column 0 holds a whole number over 1.8e\\+308"),
        (np.zeros((0, 2)), r"an array of shape \(0, 2\) came"),
        (np.zeros((2, 0)), r"an array of shape \(2, 0\) came"),
        (np.zeros((2, 2), "M8[s]"), r"an array of datetime64\[s\] came"),
        ("a text", "str came"),
        ({"age": 3}, "dict came"),
        (7, "int came"),
        ([], "X is empty"),
        (["a text", picture(7)], "X mixes image and text items"),
    ],
)
def test_what_no_items_can_be_made_of_is_named(X: Any, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        items_of(X)


def test_an_item_that_cannot_be_used_is_named_by_its_place(tmp_path: Path) -> None:
    with pytest.raises(BadItem, match="item 1: "):
        items_of(["a text", 3.5])
    with pytest.raises(BadItem, match=f"item 0: {tmp_path / 'none'}: No such file"):
        items_of([tmp_path / "none"])


def test_strings_of_numpy_are_texts_and_names_of_images(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(picture(7))
    (text,) = items_of(np.array(["a text"]))
    assert (text.kind, text.payload) == ("text", "a text")
    (image,) = items_of([str(tmp_path / "one")], "image")
    assert (image.kind, image.payload) == ("image", picture(7))


def test_tables_with_columns_that_cannot_be_told_apart_are_refused() -> None:
    pa = pytest.importorskip("pyarrow")
    twice = pa.table([[1], [2]], names=["age", "age"])
    with pytest.raises(BadInput, match="X has 2 columns called 'age'"):
        items_of(twice)
    with pytest.raises(BadInput, match="X has 0 rows of 1 columns"):
        items_of(pa.table({"age": pa.array([], pa.int64())}))
    pandas = pytest.importorskip("pandas")
    odd = pandas.DataFrame({"age": [1, "old"]}, dtype=object)
    with pytest.raises(BadInput, match="DataFrame came, of which Arrow says: "):
        items_of(odd)
