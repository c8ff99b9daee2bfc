"""Rows of answers become a file that is whole, or none."""

import csv
import json
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from polydom.features.errors import BadInput
from polydom.server.offline_scoring.output_file import PartialOutput, refuse_answers
from polydom.server.offline_scoring.output_row import Scored

FACTS = {"index": "abc", "items": "x"}
ROWS = [
    Scored(
        "0",
        "ham",
        {"ham": 0.75, "spam": 0.25},
        features=("a", "b"),
        expected_quality=0.9,
        expected_accuracy=0.9,
        cost=0.001,
        reason="feature_failed",
        threshold={"spam": 0.5},
    ),
    Scored("1", error="no, 'text'\n"),
]


def write(path: Path, rows: list[Scored], *, resume: bool = False) -> PartialOutput:
    with PartialOutput(path, FACTS, resume=resume) as partial:
        for row in rows:
            partial.add(row)
    return partial


@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".parquet"])
def test_an_output_appears_when_it_is_whole(tmp_path: Path, ending: str) -> None:
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"out{ending}"
    write(path, ROWS[:1])
    assert [file.name for file in tmp_path.iterdir()] == [f"out{ending}.partial"]
    with PartialOutput(path, FACTS, resume=True) as partial:
        assert partial.done == 1
        partial.add(ROWS[1])
        partial.finish()
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    first, second = rows_of(path)
    assert first["scores"] == {"ham": 0.75, "spam": 0.25}
    assert (first["item"], first["features"]) == ("0", ["a", "b"])
    assert float(first["cost"]) == 0.001
    assert first["reason"] == "feature_failed"
    assert first["threshold"] == {"spam": 0.5}
    assert not second["reason"]
    assert not second["threshold"]
    assert second["error"] == "no, 'text'\n"
    assert not second["label"]


# A run of before there were reasons, interrupted after its first row.
OLDER_ROW = (
    b'{"item":"0","label":"ham","scores":{"ham":0.75,"spam":0.25},"features":["a","b"],'
    b'"expected_accuracy":0.9,"cost":0.001,"error":null,"unknown":null,"missing":null}'
)
BEFORE = b'{"index": "abc", "items": "x"}\n%b\t%08x\n' % (OLDER_ROW, crc32(OLDER_ROW))


def test_rows_with_other_columns_are_not_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.with_name(f"{path.name}.partial").write_bytes(BEFORE)
    with pytest.raises(BadInput, match="or of another polydom; remove it"):
        PartialOutput(path, FACTS, resume=True)
    assert path.with_name(f"{path.name}.partial").read_bytes() == BEFORE


def rows_of(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return [
                row | {name: json.loads(row[name] or "null") for name in NESTED}
                for row in csv.DictReader(file)
            ]
    from pyarrow import parquet

    rows: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
    maps = ("scores", "threshold")
    return [row | {name: dict(row[name] or ()) for name in maps} for row in rows]


NESTED = ("scores", "features", "threshold")


def test_a_row_that_was_cut_off_is_none(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    partial = write(path, ROWS)
    for cut in (1, 5):
        with partial.path.open("r+b") as file:
            file.truncate(partial.path.stat().st_size - cut)
        assert write(path, ROWS[1:], resume=True).done == 1
    assert write(path, [], resume=True).done == 2


def test_rows_of_another_run_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    write(path, ROWS[:1])
    with pytest.raises(BadInput, match="go on with --resume"):
        PartialOutput(path, FACTS, resume=False)
    with pytest.raises(BadInput, match="of another index"):
        PartialOutput(path, {**FACTS, "index": "other"}, resume=True)
    other = tmp_path / "other.jsonl"
    write(other, [])
    with PartialOutput(other, {}, resume=False) as partial:
        assert partial.done == 0


def test_rows_that_never_came_leave_no_file(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    assert not write(path, []).path.exists()
    kept = write(path, ROWS[:1]).path
    write(path, [], resume=True)
    assert kept.exists()
    with pytest.raises(BadInput), PartialOutput(path, FACTS, resume=True):
        raise BadInput("an item cannot be used")
    assert kept.exists()


@pytest.mark.parametrize("name", ["out.xls", "none/out.csv"])
def test_an_output_that_cannot_be_is_refused_at_once(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput, match=r"\.parquet|no folder"):
        refuse_answers(tmp_path / name, [])


@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".parquet"])
@pytest.mark.parametrize("numeric", [False, True])
def test_answers_are_replaced_by_answers_alone(
    tmp_path: Path, ending: str, numeric: bool
) -> None:
    if ending == ".parquet":
        pa = pytest.importorskip("pyarrow")
    path, table = tmp_path / f"out{ending}", tmp_path / f"table{ending}"
    refuse_answers(path, [table])
    with PartialOutput(path, FACTS, resume=False, numeric=numeric) as partial:
        partial.add(Scored('a "long"\\ name\n'))
        partial.finish()
    refuse_answers(path, [table])
    with pytest.raises(BadInput, match="this file is read here"):
        refuse_answers(path, [table, path])
    if ending == ".parquet":
        from pyarrow import parquet

        parquet.write_table(pa.table({"item": ["0"], "price": [1.0]}), table)
    else:
        table.write_text({".csv": "item,price\n", ".jsonl": '{"item":"0"}\n'}[ending])
    with pytest.raises(BadInput, match="is not replaced by answers, as it is a"):
        refuse_answers(table, [])


def test_answers_are_not_put_among_the_files_of_a_table(tmp_path: Path) -> None:
    table = tmp_path / "rows.parquet"
    table.mkdir()
    with pytest.raises(BadInput, match="the items are read from"):
        refuse_answers(table / "out.parquet", [table])


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("place", [10, -12, -4, -1])
def test_rows_after_a_damaged_one_are_scored_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, at: int, place: int
) -> None:
    """One byte of a row, of its checksum, or its end, of a row in the middle or not."""
    path = tmp_path / "out.jsonl"
    rows = [*ROWS, Scored("2", "spam", cost=0.001)]
    lines = write(path, rows).path.read_bytes().splitlines(keepends=True)
    line = bytearray(lines[1 + at])
    line[place] ^= 1
    lines[1 + at] = bytes(line)
    path.with_name("out.jsonl.partial").write_bytes(b"".join(lines))
    with PartialOutput(path, FACTS, resume=True) as partial:
        assert partial.done == at
        for row in rows[at:]:
            partial.add(row)
        partial.finish()
    assert [row["item"] for row in rows_of(path)] == ["0", "1", "2"]
    assert rows_of(path)[0]["label"] == "ham"
    cut_off = (at, place) == (2, -1)  # as a process that was killed leaves it
    said = "" if cut_off else f"is damaged from row {at} on: "
    assert said in caplog.text
    assert bool(caplog.text) != cut_off


@pytest.mark.parametrize("line", [b"\n", b"{}\n", b"null\n", b'{"item":"7"\n', b"\t\n"])
def test_lines_that_are_no_rows_do_not_count(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "out.jsonl"
    partial = write(path, ROWS).path
    with partial.open("ab") as file:
        file.write(line)
    assert write(path, [], resume=True).done == 2


def test_what_is_no_interrupted_run_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    other = path.with_name("out.jsonl.partial")
    for content in (b"mine\n", b"mine", b'{"index": 1}\n', b"[]\n" * 9):
        other.write_bytes(content)
        for resume in (True, False):
            with pytest.raises(BadInput, match="holds something else than the rows"):
                PartialOutput(path, FACTS, resume=resume)
        assert other.read_bytes() == content
        assert [*tmp_path.iterdir()] == [other]


def test_one_run_writes_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    for _ in range(2):
        with (
            PartialOutput(path, FACTS, resume=False),
            pytest.raises(BadInput, match=r"out\.jsonl: another run is writing there"),
        ):
            PartialOutput(path, FACTS, resume=True)
    assert not [*tmp_path.iterdir()]
