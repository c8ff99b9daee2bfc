"""A batch in parts, by processes of this machine: one total, every item once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from polydom.features.errors import BadInput
from polydom.indexer.cluster.workers import Workers
from polydom.server.offline_scoring.checkpoint import NAME, Checkpoint
from polydom.server.offline_scoring.folder_run import FolderRun
from polydom.server.offline_scoring.part_scoring import UNFINISHED, digest_of
from tests.support.indexes.batches import assert_once, rows_in, texts, write_lines
from tests.support.indexes.served import FEATURES_FILE, HAM, save, save_index

pa = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402

OWN = [FEATURES_FILE]
COUNT = 4000
FEWER = 2000
MANY = 4000
HERE = Workers.here(1)


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """Costs are money: sums are exact."""
    return save_index(tmp_path, unit="usd")


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "x.jsonl", texts(COUNT))


def carry_out(run: FolderRun, folder: Path, total: float, **terms: Any) -> float:
    """Score a batch here; what it spent."""
    run.carry_out(folder, total, HERE, **terms)
    return sum(scored.spent for scored in run.scored)


@pytest.mark.parametrize("mean", [0.0007, 0.008])
def test_the_total_is_spent_within_a_percent_in_every_partition(
    index: Path, lines: Path, tmp_path: Path, mean: float
) -> None:
    write_lines(lines, texts(MANY))
    largest_first = sorted(texts(MANY), key=len, reverse=True)
    table = pa.table({"text": largest_first, "id": [f"id-{k}" for k in range(MANY)]})
    parquet.write_table(table, tmp_path / "x.parquet", row_group_size=600)
    accuracies = []
    for items, most in ((lines, None), (lines, 100), (tmp_path / "x.parquet", None)):
        run = FolderRun(index, items, OWN, ["id"], part_items=most)
        out = tmp_path / f"out-{items.suffix[1:]}-{most}"
        spent = carry_out(run, out, MANY * mean)
        assert 0.99 < spent / (MANY * mean) <= 1
        rows = rows_in(out)
        assert_once(rows, MANY)
        assert sum(row["cost"] for row in rows) == pytest.approx(spent)
        accuracies.append(sum(row["expected_accuracy"] for row in rows) / MANY)
        assert run.foresee(MANY * mean).expected_accuracy == pytest.approx(
            accuracies[-1], abs=0.005
        )
    assert max(accuracies) - min(accuracies) < 0.005


def test_rows_say_which_item_they_are_and_how_they_were_answered(
    index: Path, lines: Path, tmp_path: Path
) -> None:
    damaged = ["a\x00", HAM, HAM]
    write_lines(lines, damaged)
    run = FolderRun(index, lines, OWN, ["id"])
    carry_out(run, tmp_path / "out", 1.0)
    bad, good, same = rows_in(tmp_path / "out")
    assert list(good)[:4] == ["item", "id", "label", "scores"]
    assert list(good)[-2:] == ["price", "index_version"]
    assert (bad["item"], good["item"], good["id"]) == ("0", "1", "id-1")
    assert "'words'" in bad["error"]
    assert good["label"] == "ham"
    assert {**same, "item": "1", "id": "id-1"} == good
    (scored,) = run.scored
    assert (scored.rows, scored.errors) == (3, 1)
    (part,) = (tmp_path / "out").glob("part-*")
    assert scored.digest == digest_of(part)


def test_a_run_that_was_interrupted_goes_on_with_the_same_prices(
    index: Path, lines: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    total = COUNT * 0.003

    class Stop(Exception):
        pass

    def stop(done: int, left: int | None = None) -> None:
        if done > COUNT / 3:
            raise Stop

    with pytest.raises(Stop):
        carry_out(FolderRun(index, lines, OWN, ["id"]), out, total, on_progress=stop)
    done = {path.name: path.read_bytes() for path in out.glob("part-*")}
    assert COUNT / 3 / 50 <= len(done) < 100
    (out / f"{UNFINISHED}0").write_bytes(b"PAR1")  # of a worker that was killed
    checkpoint = (out / NAME).read_bytes()
    # as if the last part had been begun and not finished, and a line cut off
    last = sorted(done)[-1]
    before = parquet.read_table(out / last)
    (out / last).unlink()
    with (out / NAME).open("ab") as file:
        file.write(b'{"part":1')
    with pytest.raises(BadInput, match="go on with --resume"):
        carry_out(FolderRun(index, lines, OWN, ["id"]), out, total)
    spent = carry_out(FolderRun(index, lines, OWN, ["id"]), out, total, resume=True)
    assert 0.99 < spent / total <= 1
    assert_once(rows_in(out), COUNT)
    assert (out / NAME).read_bytes().startswith(checkpoint)
    assert parquet.read_table(out / last).equals(before)
    for name in set(done) - {last}:
        assert (out / name).read_bytes() == done[name]
    assert {path.name for path in out.iterdir() if path.name[0] == "_"} == {NAME}
    again = FolderRun(index, lines, OWN, ["id"])
    assert carry_out(again, out, total, resume=True) == pytest.approx(spent)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def other_part(path: Path) -> None:
    path.write_bytes(path.with_name("part-00002.parquet").read_bytes())


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def untold(path: Path) -> None:
    """As if the run had been killed when the part had its name, and no line."""
    checkpoint = path.with_name(NAME)
    lines = checkpoint.read_bytes().splitlines(keepends=True)
    kept = (x for x in lines if not x.startswith(b'{"part":1,"scored"'))
    checkpoint.write_bytes(b"".join(kept))


def older(path: Path) -> None:
    """As a run of an earlier version left the folder: no line tells what parts are."""
    checkpoint = path.with_name(NAME)
    lines = checkpoint.read_bytes().splitlines(keepends=True)
    checkpoint.write_bytes(b"".join(x for x in lines if b'"scored"' not in x))


def gone(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        *((one, "part-00001.parquet\n") for one in (flip, other_part, cut, empty)),
        (untold, "part-00001.parquet\n"),
        (older, "part-00000.parquet, part-00001.parquet, "),
        (gone, ""),
    ],
)
def test_parts_that_are_not_as_they_were_written_are_scored_again(
    index: Path,
    lines: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    change: Callable[[Path], None],
    said: str,
) -> None:
    out, total = tmp_path / "out", 0.3
    write_lines(lines, texts(200))
    spent = carry_out(FolderRun(index, lines, OWN, ["id"]), out, total)
    answers = [parquet.read_table(path) for path in sorted(out.glob("part-*"))]
    prices = [table["price"][0] for table in answers]
    assert len(set(prices)) > 1
    change(out / "part-00001.parquet")
    run = FolderRun(index, lines, OWN, ["id"])
    assert carry_out(run, out, total, resume=True) == pytest.approx(spent)
    again = [parquet.read_table(path) for path in sorted(out.glob("part-*"))]
    assert all(one.equals(other) for one, other in zip(answers, again, strict=True))
    assert_once(rows_in(out), 200)
    assert (said in caplog.text) if said else not caplog.text
    caplog.clear()
    carry_out(FolderRun(index, lines, OWN, ["id"]), out, total, resume=True)
    assert not caplog.text


def test_a_folder_of_items_gets_no_parts(
    index: Path, lines: Path, tmp_path: Path
) -> None:
    table, folder = tmp_path / "rows.parquet", tmp_path / "texts"
    for place in (table, folder):
        place.mkdir()
    parquet.write_table(pa.table({"text": [HAM]}), table / "0.parquet")
    (folder / "0.txt").write_text(HAM)
    for items, out in ((table, table), (table, table / "out"), (folder, folder)):
        with pytest.raises(BadInput, match="the items are read from"):
            carry_out(FolderRun(index, items, OWN), out, 1.0)
    carry_out(FolderRun(index, folder, OWN), folder / "out", 1.0)


def test_other_items_options_and_indexes_do_not_go_on(
    index: Path, lines: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    write_lines(lines, texts(100))
    carry_out(FolderRun(index, lines, OWN), out, 1.0)
    other = save(tmp_path / "other.pdx", best=0.99)
    for run in (
        FolderRun(index, lines, OWN, ["id"]),
        FolderRun(index, lines, OWN, part_items=10),
        FolderRun(other, lines, OWN),
    ):
        with pytest.raises(BadInput, match="parts of another index, of other items"):
            carry_out(run, out, 1.0, resume=True)
    lines_there = (out / NAME).read_bytes()
    older = lines_there.replace(b'"reason", ', b"", 1)
    assert older != lines_there
    (out / NAME).write_bytes(older)
    with pytest.raises(BadInput, match="options or of another polydom"):
        carry_out(FolderRun(index, lines, OWN), out, 1.0, resume=True)
    (out / NAME).write_bytes(lines_there + b"{}\n")
    with pytest.raises(BadInput, match=r"_batch\.jsonl is damaged: "):
        carry_out(FolderRun(index, lines, OWN), out, 1.0, resume=True)
    (out / NAME).unlink()
    with pytest.raises(BadInput, match="holds parts of something else"):
        carry_out(FolderRun(index, lines, OWN), out, 1.0)


def test_two_runs_do_not_write_into_one_folder(
    index: Path, lines: Path, tmp_path: Path
) -> None:
    run = FolderRun(index, lines, OWN)
    with (
        Checkpoint(tmp_path / "out", {}, resume=False),
        pytest.raises(BadInput, match="another run is writing there"),
    ):
        carry_out(run, tmp_path / "out", 1.0)


def test_an_item_without_an_answer_ends_it_all_where_that_is_wanted(
    index: Path, lines: Path, tmp_path: Path
) -> None:
    given = texts(100)
    write_lines(lines, [*given[:50], "a\x00", *given[51:]])
    out = tmp_path / "out"
    with pytest.raises(BadInput, match=r"item 50: .*'words'"):
        carry_out(FolderRun(index, lines, OWN, ["id"]), out, 1.0, stops=True)
    assert len(list(out.glob("part-*"))) < 4
    assert not list(out.glob(f"{UNFINISHED}*"))
    carry_out(FolderRun(index, lines, OWN, ["id"]), out, 1.0, resume=True)
    assert_once(rows_in(out), 100)


def test_items_that_changed_meanwhile_are_noticed(
    index: Path, lines: Path, tmp_path: Path
) -> None:
    run = FolderRun(index, lines, OWN)
    write_lines(lines, texts(COUNT)[: COUNT // 2])
    with pytest.raises(BadInput, match="they changed meanwhile"):
        carry_out(run, tmp_path / "out", 1.0)


@pytest.mark.parametrize("keep", [["label"], ["item"], ["id", "id"], ["price"]])
def test_columns_that_cannot_be_kept_are_refused(
    index: Path, lines: Path, keep: list[str]
) -> None:
    with pytest.raises(BadInput, match=r"to keep is one|to be kept twice"):
        FolderRun(index, lines, OWN, keep)


def test_folders_of_files_are_scored_by_their_names(
    index: Path, tmp_path: Path
) -> None:
    (tmp_path / "texts").mkdir()
    for k in range(40):
        (tmp_path / "texts" / f"{k}.txt").write_text(f"{HAM}{k}")
    run = FolderRun(index, tmp_path / "texts", OWN)
    carry_out(run, tmp_path / "out", 1.0)
    found = {row["item"] for row in rows_in(tmp_path / "out")}
    assert found == {f"{k}.txt" for k in range(40)}


def test_processes_give_the_same_answers_as_one(
    index: Path, lines: Path, tmp_path: Path
) -> None:
    write_lines(lines, texts(FEWER))
    many = FolderRun(index, lines, OWN, ["id"])
    many.carry_out(tmp_path / "many", FEWER * 0.003, Workers.here(2))
    spent = sum(part.spent for part in many.scored)
    assert spent == pytest.approx(FEWER * 0.003, rel=0.01)
    one = FolderRun(index, lines, OWN, ["id"])
    with Checkpoint(tmp_path / "one", {}, resume=False):
        pass
    # the same prices, as a second try of each part has them
    (tmp_path / "one" / NAME).write_bytes((tmp_path / "many" / NAME).read_bytes())
    carry_out(one, tmp_path / "one", FEWER * 0.003, resume=True)
    assert sorted(rows_in(tmp_path / "one"), key=by_id) == sorted(
        rows_in(tmp_path / "many"), key=by_id
    )


def by_id(row: dict[str, Any]) -> str:
    return str(row["id"])
