"""Items in parts: all of them, once, in order, whatever they come from."""

import json
from pathlib import Path
from typing import Any

import pytest

from polydom.features.errors import BadInput, BadItem
from polydom.indexer.index.package import Package
from polydom.server.batch.knapsack import Shape
from polydom.server.offline_scoring.folder_budget import ShapeSample
from polydom.server.offline_scoring.parts import Part, check_columns, divide
from tests.support.indexes.served import make_index

pa = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402

TEXTS = [f"text {k}" for k in range(1000)]


@pytest.fixture
def package() -> Package:
    found = make_index().package
    assert found is not None
    return found


def read(parts: list[Part], package: Package, keep: list[str], rows: int = 7) -> Any:
    """Names, items and what is kept of all parts."""
    names: list[str] = []
    items: list[Any] = []
    kept: list[list[Any]] = [[] for _ in keep]
    for number, part in enumerate(parts):
        assert part.number == number
        assert part.first == len(items)
        for some in part.read(package, keep, rows):
            assert len(some.names) == len(some.items) <= rows
            names += some.names
            items += some.items
            for column, array in zip(kept, some.kept, strict=True):
                column += array.to_pylist()
        assert part.first + part.count == len(items)
    assert len({part.name for part in parts}) == len(parts)
    return names, items, kept


def write_table(path: Path, group: int, count: int = 1000) -> Path:
    table = pa.table(
        {"more": [None] * count, "text": TEXTS[:count], "id": range(count)}
    )
    parquet.write_table(table, path, row_group_size=group)
    return path


@pytest.mark.parametrize("most", [None, 1, 30, 64, 5000])
@pytest.mark.parametrize("group", [1, 64, 133, 200])
def test_row_groups_are_divided(
    tmp_path: Path, package: Package, group: int, most: int | None
) -> None:
    path = write_table(tmp_path / "x.parquet", group, 200)
    parts = divide(path, package, most)
    assert max(part.count for part in parts) <= min(most or 32, group)
    found = read(parts, package, ["id"])
    assert found == ([str(k) for k in range(200)], TEXTS[:200], [list(range(200))])
    check_columns(path, ["id"])


@pytest.mark.parametrize("ending", [".parquet", ""])
def test_files_of_a_table_are_divided_one_by_one(
    tmp_path: Path, package: Package, ending: str
) -> None:
    folder = tmp_path / f"x{ending}"
    (folder / "day=2").mkdir(parents=True)
    (folder / "_hidden").mkdir()
    write_table(folder / "day=2" / f"b{ending}", 500)
    write_table(folder / f"a{ending}", 1000)
    write_table(folder / "_hidden" / f"c{ending}", 1000)
    (folder / "_SUCCESS").touch()
    names, items, _ = read(divide(folder, package, 400), package, [])
    assert items == TEXTS * 2
    assert names == [str(k) for k in range(2000)]
    check_columns(folder, ["id"])


@pytest.mark.parametrize("most", [None, 1, 30, 5000])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_lines_are_divided(
    tmp_path: Path, package: Package, start: str, most: int | None
) -> None:
    path = tmp_path / "x.jsonl"
    lines = [json.dumps({"text": text, "id": k}) for k, text in enumerate(TEXTS)]
    lines[500] = "{"
    text = "\n\n".join(lines) + "\n" * 3
    path.write_text(start + text + '{"id":"Ä","text":"no end"}', "utf-8")
    names, items, (ids,) = read(divide(path, package, most), package, ["id"])
    assert names == [str(k) for k in range(1001)]
    assert items[:500] + items[501:] == [*TEXTS[:500], *TEXTS[501:], "no end"]
    assert isinstance(items[500], BadItem)
    assert ids == [*map(str, range(500)), None, *map(str, range(501, 1000)), "Ä"]


def test_folders_are_divided_into_runs_of_files(
    tmp_path: Path, package: Package
) -> None:
    for k in range(70):
        (tmp_path / f"{k:02d}.txt").write_text(f"text {k}")
    parts = divide(tmp_path, package)
    assert [part.count for part in parts] == [32, 32, 6]
    names, items, _ = read(parts, package, [])
    assert names == [f"{k:02d}.txt" for k in range(70)]
    assert items == [f"text {k}" for k in range(70)]
    with pytest.raises(BadInput, match="needs the columns of a table"):
        check_columns(tmp_path, ["id"])


def test_what_cannot_be_divided_is_refused(tmp_path: Path, package: Package) -> None:
    (tmp_path / "x.csv").write_text("text\nhi\n")
    with pytest.raises(BadInput, match="cannot be divided into parts"):
        divide(tmp_path / "x.csv", package)
    with pytest.raises(BadInput, match="there is no such file"):
        divide(tmp_path / "y.parquet", package)
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    with pytest.raises(BadInput, match="no Parquet file"):
        divide(tmp_path / "x.parquet", package)
    (tmp_path / "z.parquet").mkdir()
    with pytest.raises(BadInput, match="holds no Parquet file"):
        divide(tmp_path / "z.parquet", package)
    path = write_table(tmp_path / "t.parquet", 10)
    with pytest.raises(BadInput, match="no column 'ids'; did you mean 'id'"):
        check_columns(path, ["ids"])


def test_sizes_are_those_of_each_parts_own_items(
    tmp_path: Path, package: Package
) -> None:
    path = tmp_path / "x.jsonl"
    long = ["x" * (1 + k // 100) for k in range(1000)]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in long))
    parts = divide(path, package, 100)
    sample = ShapeSample(parts, package, pair=False)
    assert [sample.of(k) for k in range(10)] == [
        [Shape(float(k + 1))] * 100 for k in range(10)
    ]
    # of a large row group, only what is near its beginning is read
    more = [f"{k:06d}" * 2000 for k in range(1000)]
    table = pa.table({"more": more, "text": long})
    parquet.write_table(table, tmp_path / "x.parquet", row_group_size=500)
    parts = divide(tmp_path / "x.parquet", package, 100)
    sample = ShapeSample(parts, package, pair=False)
    found = [sample.of(k)[0].size for k in range(10)]
    assert found == [1.0, 2.0, 3.0, 4.0, 4.0, 6.0, 7.0, 8.0, 9.0, 9.0]


def test_items_none_of_which_can_be_read_have_no_sizes(
    tmp_path: Path, package: Package
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"txt":"hi"}\n' * 5)
    with pytest.raises(BadInput, match="no item can be read: the row holds no 'text'"):
        ShapeSample(divide(path, package), package, pair=False)
