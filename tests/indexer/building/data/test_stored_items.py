"""Items are read where they lie, and are what they were when they were first read."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polydom.features.errors import BadProject
from polydom.features.items import Item, make_item
from polydom.indexer.building.cache import Cache
from polydom.indexer.building.data.dataset import Dataset, make_dataset
from polydom.indexer.building.data.read_items import load_data
from polydom.indexer.building.data.stored_items import (
    StoredItems,
    StoredNames,
    store_items,
)
from polydom.indexer.building.project import Project

TEXTS = ["", "one line", "two\nlines", "naïve ω", "a" * 5000, "\r\n\r", "x"]
CALLED = """\
def items():
    yield from zip({contents}, ["a", "b"] * 9)
"""


def load(folder: Path, pair: bool = False, **data: Any) -> Dataset:
    content: dict[str, Any] = {"data": data}
    if pair:
        content["costs"] = {"size": ["words", "sentences"]}
    return load_data(Project.from_mapping(content, folder=folder))


def lines_of(texts: list[str]) -> list[str]:
    """Rows of JSON Lines, each with a label; now and then an empty line."""
    rows = [{"text": t, "label": "ab"[n % 2], "n": n} for n, t in enumerate(texts)]
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    return [line + "\n" * (1 + n % 2) for n, line in enumerate(lines)]


def in_files(folder: Path, pair: bool) -> Dataset:
    for number, text in enumerate(TEXTS):
        path = folder / "texts" / "ab"[number % 2] / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return load(folder, pair, texts="texts")


def in_lines(folder: Path, pair: bool) -> Dataset:
    (folder / "a.jsonl").write_text("".join(lines_of(TEXTS)), "utf-8", newline="")
    return load(folder, pair, texts="a.jsonl")


def in_lines_after_a_mark(folder: Path, pair: bool) -> Dataset:
    lines = "\ufeff" + "".join(lines_of(TEXTS)).replace("\n", "\r\n")
    (folder / "a.jsonl").write_text(lines, "utf-8", newline="")
    return load(folder, pair, texts="a.jsonl")


def in_lines_of_another_encoding(folder: Path, pair: bool) -> Dataset:
    (folder / "a.jsonl").write_text("".join(lines_of(TEXTS)), "utf-16", newline="")
    return load(folder, pair, texts="a.jsonl", encoding="utf-16")


def by_a_function(folder: Path, pair: bool) -> Dataset:
    (folder / f"m{folder.name}.py").write_text(CALLED.format(contents=TEXTS))
    return load(folder, pair, items=f"m{folder.name}:items")


@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize(
    "read",
    [
        in_files,
        in_lines,
        in_lines_after_a_mark,
        in_lines_of_another_encoding,
        by_a_function,
    ],
)
def test_items_and_names_are_those_that_were_read(
    read: Any, pair: bool, tmp_path: Path
) -> None:
    dataset = read(tmp_path, pair)
    stored, names = dataset.items, dataset.names
    assert isinstance(stored, StoredItems)
    payloads = TEXTS
    if read is in_files:  # of Python's reading, in the order of paths
        payloads = [(tmp_path / "texts" / name).read_text("utf-8") for name in [*names]]
        payloads = [payloads[n] for n in range(len(payloads))]
    wanted = tuple(make_item(text, pair=pair) for text in payloads)
    assert tuple(stored) == wanted
    assert stored.kind == "text"
    assert dataset.sizes.tolist() == np.array([one.size for one in wanted]).tolist()
    for place in (0, -1, 3):
        assert stored[place] == wanted[place]
    for part in (slice(2, 5), slice(None), slice(-2, 99), slice(5, 2), slice(6, 0, -2)):
        assert tuple(stored[part]) == wanted[part]
        assert tuple(stored[1:][part]) == wanted[1:][part]
        assert [*names[part]] == [*names][part]
    drawn = np.array([5, 0, 0, 6])
    assert tuple(stored.take(drawn)) == tuple(wanted[row] for row in drawn)
    assert [*dataset.only(drawn).names] == [names[row] for row in drawn]
    with pytest.raises(IndexError):
        stored[len(wanted)]
    in_memory = make_dataset(
        wanted, [*names], [dataset.labels[c] for c in dataset.codes], [None] * 7
    )
    assert dataset.digest == in_memory.digest


def test_names_say_where_items_lie(tmp_path: Path) -> None:
    assert [*in_files(tmp_path, False).names][:2] == [
        str(Path("a", "0.txt")),
        str(Path("a", "2.txt")),
    ]
    assert [*in_lines(tmp_path, False).names][:3] == [
        "a.jsonl, line 1",
        "a.jsonl, line 2",
        "a.jsonl, line 4",
    ]
    assert by_a_function(tmp_path, False).names[6].endswith(":items, item 6")


def test_what_goes_to_another_process_does_not_grow_with_the_items(
    tmp_path: Path,
) -> None:
    count = 300_000
    table = {
        "places": np.zeros(count, np.uint8),
        "digests": np.zeros((count, 16), np.uint8),
        "facts": np.zeros(0, np.uint8),
    }
    rows = {"rows": np.arange(count)}
    shared = StoredItems(table, rows).shared(Cache(tmp_path))
    part = shared[100_000:104_096]
    assert len(pickle.dumps((part, part.names))) < 1000
    assert pickle.loads(pickle.dumps(part)).rows.tolist() == [*range(100_000, 104_096)]


def test_where_no_folder_is_seen_items_go_along(tmp_path: Path) -> None:
    dataset = in_lines(tmp_path, False).shared(Cache(tmp_path / "c", seen=False))
    there: Any = pickle.loads(pickle.dumps((dataset.items[2:4], dataset.names[2:4])))
    (tmp_path / "a.jsonl").unlink()
    assert there == (
        tuple(make_item(text) for text in TEXTS[2:4]),
        ("a.jsonl, line 4", "a.jsonl, line 5"),
    )
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("seen", [False, True])
def test_shared_items_are_the_same(tmp_path: Path, seen: bool) -> None:
    dataset = in_files(tmp_path, True)
    shared = dataset.only(np.array([3, 1])).shared(Cache(tmp_path / "c", seen=seen))
    again: Any = pickle.loads(pickle.dumps((shared.items, shared.names)))
    assert tuple(again[0]) == (dataset.items[3], dataset.items[1])
    assert [*again[1]] == [dataset.names[3], dataset.names[1]]


def test_items_in_memory_are_written_and_keep_their_names(tmp_path: Path) -> None:
    items = [make_item(one) for one in ({"a": 1, "b": None}, {"a": 0.5}, {"b": "ω"})]
    stored = store_items(items, ["x", "y, z", ""], tmp_path / "new" / "items.msgpack")
    assert tuple(stored) == tuple(items)
    assert [*stored.names] == ["x", "y, z", ""]
    assert isinstance(stored.names, StoredNames)


def test_a_line_that_was_changed_since_is_refused_by_name(tmp_path: Path) -> None:
    dataset, path = in_lines(tmp_path, False), tmp_path / "a.jsonl"
    content = path.read_bytes()
    path.write_bytes(content + b'{"text": "more", "label": "a"}\n')
    assert [one.payload for one in dataset.items] == TEXTS  # what is added harms none
    path.write_bytes(content.replace(b"one line", b"one lime"))
    assert dataset.items[0] == make_item(TEXTS[0])
    with pytest.raises(BadProject, match=r"a\.jsonl, line 2 was changed since"):
        dataset.items[1]
    for harm in (content[1:], b"", content.replace(b'"text"', b'"tex_"')):
        path.write_bytes(harm)
        with pytest.raises(BadProject, match=r"a\.jsonl, line 5 was changed since"):
            dataset.items[3]


def test_a_file_that_is_gone_is_refused(tmp_path: Path) -> None:
    dataset = in_files(tmp_path, False)
    (tmp_path / "texts" / "b" / "1.txt").unlink()
    found: list[Item] = []
    with pytest.raises(BadProject, match=r"1\.txt: No such file .*; it was there when"):
        found.extend(dataset.items)
    assert len(found) == 4


def test_of_a_function_that_fails_no_file_stays(tmp_path: Path) -> None:
    name = f"m{tmp_path.name}"
    code = 'def items():\n    yield "x", "a"\n    raise RuntimeError("mine")\n'
    (tmp_path / f"{name}.py").write_text(code)
    with pytest.raises(RuntimeError, match="mine"):
        load(tmp_path, items=f"{name}:items")
    assert not [path for path in tmp_path.rglob("*") if "msgpack" in path.name]
