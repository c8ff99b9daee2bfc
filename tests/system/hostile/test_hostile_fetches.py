"""Index files whose fetches contradict the rest of the file are refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polydom.features.errors import BadIndexFile
from polydom.indexer.index.fetches.stored_fetches import MOST_DRAWS, MOST_FETCHES
from polydom.indexer.index.file.pdx_file import read_file
from polydom.indexer.index.index import Index
from tests.support.edited_files.edits import sealed
from tests.support.indexes import fetched, records

Arrays = dict[str, np.ndarray[Any, Any]]
Edit = Callable[[list[dict[str, Any]], Arrays], None]
DRAWS = "fetches/arrivals"


def put(fetch: int, key: str, value: Any) -> Edit:
    return lambda fetches, arrays: fetches[fetch].update({key: value})


def draws(make: Callable[[Any], Any]) -> Edit:
    return lambda fetches, arrays: arrays.update({DRAWS: make(arrays[DRAWS])})


def repeat(fetches: list[dict[str, Any]], arrays: Arrays) -> None:
    """Have one fetch more than an index may have."""
    fetches *= MOST_FETCHES // 2
    fetches.append(fetches[0])


EDITS: dict[str, tuple[Edit, str]] = {
    "too many": (repeat, "17 fetches"),
    "same name": (put(1, "name", "employer"), "same name"),
    "no name": (put(0, "name", ""), "length >= 1"),
    "no key": (put(0, "key", []), "a fetch is not for record items"),
    "no columns": (put(0, "columns", []), "length >= 1"),
    "key column twice": (put(0, "key", ["age", "age"]), "column twice"),
    "column twice": (put(0, "columns", ["job", "job"]), "brought twice"),
    "column of two": (put(0, "columns", ["job", "n_orders"]), "brought twice"),
    "unread column": (put(0, "columns", ["job", "shoes"]), "no feature reads"),
    "key that is brought": (put(0, "key", ["job"]), "part of a key"),
    "kinds of another key": (put(0, "key_kinds", ["text"] * 2), "not those of the key"),
    "no kind": (put(0, "key_kinds", ["address"]), "address"),
    "negative price": (put(1, "price", {"usd": -1.0}), ">= 0"),
    "other unit": (put(1, "price", {"a": 1.0, "b": 1.0}), "several units"),
    "an address": (put(1, "http", "http://127.0.0.1"), "unknown field"),
    "fewer draws": (draws(lambda a: a[:, :1].copy()), "not its fetches'"),
    "no draws": (draws(lambda a: a[:0]), "0 draws"),
    "too many draws": (
        draws(lambda a: np.tile(a[:1], (MOST_DRAWS + 1, 1))),
        "100,001 draws",
    ),
    "negative": (draws(lambda a: -a), "no time"),
    "beyond all times": (draws(lambda a: np.full_like(a, 1e31)), "no time"),
    "NaN": (draws(lambda a: a * np.nan), "not finite"),
    "half the digits": (draws(lambda a: (a / 1e300).astype("<f4")), "another form"),
    "a list": (draws(lambda a: a[:, 0].copy()), "another form"),
}


@pytest.mark.parametrize("name", EDITS)
def test_contradictions_are_refused(tmp_path: Path, name: str) -> None:
    meta, arrays, _ = read_file(fetched.save_index(tmp_path))
    edit, message = EDITS[name]
    edit(meta["package"]["fetches"], arrays)
    path = tmp_path / "edited.pdx"
    path.write_bytes(sealed(meta, arrays))
    with pytest.raises(BadIndexFile, match=message):
        Index.load(path)


def test_draws_without_fetches_are_refused(tmp_path: Path) -> None:
    meta, arrays, _ = read_file(records.save_index(tmp_path))
    arrays[DRAWS] = np.ones((3, 1))
    path = tmp_path / "edited.pdx"
    path.write_bytes(sealed(meta, arrays))
    with pytest.raises(BadIndexFile, match="not its fetches'"):
        Index.load(path)


def test_fetches_without_draws_are_refused(tmp_path: Path) -> None:
    meta, arrays, _ = read_file(fetched.save_index(tmp_path))
    del arrays[DRAWS]
    path = tmp_path / "edited.pdx"
    path.write_bytes(sealed(meta, arrays))
    with pytest.raises(BadIndexFile, match="not its fetches'"):
        Index.load(path)


def test_fetches_need_costs_that_count_seconds(tmp_path: Path) -> None:
    meta, arrays, _ = read_file(fetched.save_index(tmp_path))
    meta["package"]["meta"]["unit"] = "usd"
    path = tmp_path / "edited.pdx"
    path.write_bytes(sealed(meta, arrays))
    with pytest.raises(BadIndexFile, match="for budgets of seconds"):
        Index.load(path)


def test_files_without_fetches_have_nothing_of_them(tmp_path: Path) -> None:
    meta, arrays, _ = read_file(records.save_index(tmp_path))
    assert "fetches" not in meta["package"]
    assert not any(name.startswith("fetches") for name in arrays)
