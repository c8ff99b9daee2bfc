"""`polydom score` and `polydom score-parts` as they are typed, and interrupted."""

import csv
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from polydom.server.__main__ import main
from tests.support.indexes.served import FEATURES_FILE, HAM, SPAM, save_index
from tests.support.processes.forked_process import ForkedProcess
from tests.support.processes.servers import POLYDOM
from tests.support.waiting import wait_until

OWN = ["--features", str(FEATURES_FILE)]


@pytest.fixture
def index(tmp_path: Path) -> Path:
    (tmp_path / "texts.jsonl").write_text(lines([HAM, SPAM] * 60))
    return save_index(tmp_path)


def lines(texts: list[str]) -> str:
    return "".join(json.dumps({"text": text}) + "\n" for text in texts)


def score(index: Path, *options: object) -> int:
    items, output = index.parent / "texts.jsonl", index.parent / "out.jsonl"
    start = ["score", index, items, "-o", output, *OWN]
    return main([str(option) for option in [*start, *options]])


def rows(index: Path) -> list[dict[str, object]]:
    text = (index.parent / "out.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_score_writes_a_row_for_every_item(
    index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert score(index, "--total-budget", "60s") == 0
    found = rows(index)
    assert [row["item"] for row in found] == [str(k) for k in range(120)]
    assert [row["label"] for row in found[:2]] == ["ham", "spam"]
    said = capsys.readouterr()
    assert "120 rows, 0 of them errors" in said.out
    assert "warming up, not in the budget" in said.err


def test_score_lists_the_likeliest(index: Path) -> None:
    assert score(index, "-b", "60s", "--label", "spam", "--top", 2) == 0
    assert [row["item"] for row in rows(index)] == ["1", "3"]


def test_score_stops_at_an_error_and_goes_on_after_it_is_mended(
    index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = index.parent / "texts.jsonl"
    texts.write_text(lines([HAM] * 5) + "{}\n" + lines([SPAM]))
    assert score(index, "-b", "9s", "--on-error", "stop") == 1
    assert "item 5: the row holds no 'text'" in capsys.readouterr().err
    assert not (index.parent / "out.jsonl").exists()
    assert score(index, "-b", "9s") == 1
    assert "--resume" in capsys.readouterr().err
    texts.write_text(lines([HAM] * 5 + [SPAM] * 2))
    assert score(index, "-b", "9s", "--resume") == 0
    assert [row["label"] for row in rows(index)] == ["ham"] * 5 + ["spam"] * 2


def test_score_goes_on_where_it_was_interrupted(index: Path) -> None:
    texts, out = index.parent / "texts.jsonl", index.parent / "out.jsonl"
    texts.write_text(lines([HAM, SPAM] * 15_000))
    command = ["score", str(index), str(texts), "-o", str(out), *OWN, "-b", "1h"]
    process = subprocess.Popen([*POLYDOM, *command], stderr=subprocess.PIPE, text=True)
    partial = out.with_name("out.jsonl.partial")
    while not partial.exists() or partial.stat().st_size < 50_000:
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "--resume goes on" in err
    assert not out.exists()
    _, *done = partial.read_bytes().splitlines()
    assert score(index, "-b", "10s", "--resume") == 0
    before = b"\n".join(line.partition(b"\t")[0] for line in done)
    assert out.read_bytes().startswith(before)
    found = rows(index)
    assert [row["item"] for row in found] == [str(k) for k in range(30_000)]
    assert not partial.exists()


def test_a_second_run_is_refused_until_the_first_is_killed(
    index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts, out = index.parent / "texts.jsonl", index.parent / "out.jsonl"
    texts.write_text(lines([HAM, SPAM] * 5000))
    command = ["score", str(index), str(texts), "-o", str(out), *OWN, "-b", "1h"]
    first = ForkedProcess(["polydom", *command])
    partial = out.with_name("out.jsonl.partial")
    try:
        wait_until(lambda: partial.exists() and partial.stat().st_size, first)
        first.send_signal(signal.SIGSTOP)
        for resume in ([], ["--resume"]):
            assert score(index, "-b", "9s", *resume) == 1
            error = capsys.readouterr().err.splitlines()[-1]
            assert error == f"polydom: {out}: another run is writing there"
        assert first.poll() is None
    finally:
        first.kill()
        first.communicate(timeout=20)
    assert score(index, "-b", "1s", "--resume") == 0
    assert [row["item"] for row in rows(index)] == [str(k) for k in range(10_000)]
    assert {path.name for path in index.parent.glob("*out*")} == {"out.jsonl"}


@pytest.mark.parametrize("output", ["out.jsonl", "out.csv", "out.parquet", "out"])
def test_a_file_name_that_is_no_utf_8_is_one_row(index: Path, output: str) -> None:
    if output in ("out.parquet", "out"):
        pytest.importorskip("pyarrow")
    texts, out = index.parent / "texts", index.parent / output
    (texts / "deeper").mkdir(parents=True)
    for name in (b"a.txt", b"b\xff.txt", b"c\nd.txt", b"deeper/\xe9\xc3\xa9.txt"):
        (texts / os.fsdecode(name)).write_text(HAM)
    command, budget = "score", "-b"
    if output == "out":
        command, budget = "score-parts", "--total-cpu"
    arguments = [str(index), str(texts), "-o", str(out), *OWN, budget, "9s"]
    assert main([command, *arguments]) == 0
    if out.suffix == ".jsonl":
        found = [row["item"] for row in rows(index)]
    elif out.suffix == ".csv":
        with out.open(newline="", encoding="utf-8") as file:
            found = [row["item"] for row in csv.DictReader(file)]
    else:
        from pyarrow import parquet

        found = parquet.read_table(out)["item"].to_pylist()
    assert found == ["a.txt", "b\\xff.txt", "c\nd.txt", "deeper/\\xe9é.txt"]


def test_a_folder_whose_name_is_no_utf_8_holds_answers_or_says_why_not(
    index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyarrow")
    folder, items = index.parent / os.fsdecode(b"f\xff"), index.parent / "texts.jsonl"
    folder.mkdir()
    items.write_text(lines([HAM]))
    start = [str(index), str(items), *OWN, "-o"]
    assert main(["score", *start, str(folder / "o.jsonl"), "-b", "9s"]) == 0
    assert (folder / "o.jsonl").exists()
    for command, output, budget in (
        ("score", "o.parquet", "-b"),
        ("score-parts", "parts", "--total-cpu"),
    ):
        capsys.readouterr()
        assert main([command, *start, str(folder / output), budget, "9s"]) == 1
        error = capsys.readouterr().err.splitlines()[-1]
        assert "pyarrow opens no path that is not in UTF-8; rename it" in error


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("texts.jsonl", "texts.jsonl: this file is read here"),
        ("table.csv", "is not replaced by answers, as it is a text that begins 'a,b'"),
        ("table.parquet", "is not replaced by answers, as it is something else"),
        ("pipe.csv", "this is a pipe or a device"),
        ("link.jsonl", "this is a link to none, which is not there"),
        ("file", "file: this is a file; name a folder, or a .parquet, .jsonl or .csv"),
    ],
)
def test_score_replaces_nothing_but_answers(
    index: Path, capsys: pytest.CaptureFixture[str], output: str, message: str
) -> None:
    folder = index.parent
    (folder / "table.csv").write_text("a,b\n1,2\n")
    (folder / "table.parquet").write_bytes(b"\0")
    (folder / "file").write_text("mine")
    (folder / "link.jsonl").symlink_to("none")
    os.mkfifo(folder / "pipe.csv")
    before = sorted(folder.iterdir()), (folder / "texts.jsonl").read_bytes()
    command, budget = "score", "-b"
    if output == "file":
        command, budget = "score-parts", "--total-cpu"
    items, out = folder / "texts.jsonl", folder / output
    assert main([command, str(index), str(items), "-o", str(out), *OWN, budget, "9s"])
    assert message in capsys.readouterr().err
    assert (sorted(folder.iterdir()), (folder / "texts.jsonl").read_bytes()) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-b", "60"), "such as 500ms"),
        (("-b", "soon"), "such as 500ms"),
        (("-b", "1s", "--label", "spam"), "--label needs --top: "),
        (("-b", "1s", "--label", "x", "--top", 1, "--resume"), "no rows before"),
        (("-b", "1s", "--label", "x", "--top", 1), "no class 'x'"),
        (
            ("-b", "1s", "--on", "dask://127.0.0.1:1"),
            "`polydom score-parts` writes",
        ),
        (("-b", "1s", "--on", "elsewhere"), "'elsewhere' is no place for workers"),
        (("-b", "1s", "-o", "out/"), "-o out: a file is needed; "),
    ],
)
def test_score_says_in_one_line_what_is_wrong(
    index: Path,
    capsys: pytest.CaptureFixture[str],
    options: tuple[object, ...],
    message: str,
) -> None:
    assert score(index, *options) == 1
    assert message in capsys.readouterr().err.splitlines()[-1]
    assert not list(index.parent.glob("out.*"))


def test_score_counts_money_where_the_index_does(tmp_path: Path) -> None:
    index = save_index(tmp_path, unit="usd")
    (tmp_path / "texts.jsonl").write_text(lines([HAM] * 10))
    assert score(index, "-b", "0.005") == 0
    assert sum(float(str(row["cost"])) for row in rows(index)) <= 0.005
    assert score(index, "-b", "5s") == 1


def into_folder(index: Path, *options: object) -> int:
    """Score the texts in parts."""
    items, output = index.parent / "texts.jsonl", f"{index.parent / 'out'}/"
    start = ["score-parts", index, items, "-o", output, *OWN]
    return main([str(option) for option in [*start, *options]])


def test_score_into_a_folder_tells_what_it_spent_of_the_total(
    index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = pytest.importorskip("pyarrow.dataset")
    assert into_folder(index, "--total-cpu", "2m", "--part-items", 50) == 0
    told = capsys.readouterr().out
    assert "120 rows in 3 parts, 0 of them errors" in told
    assert " of 2 min for an expected quality of 0.950; " in told
    table = dataset.dataset(index.parent / "out").to_table()
    assert sorted(table["item"].to_pylist(), key=int) == [str(k) for k in range(120)]
    assert into_folder(index, "--total-cpu", "2m", "--part-items", 50) == 1
    assert "go on with --resume" in capsys.readouterr().err


def test_score_says_what_a_total_buys_and_scores_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = save_index(tmp_path, unit="usd")
    (tmp_path / "texts.jsonl").write_text(lines([HAM, SPAM] * 60))
    command = ["score-parts", str(index), str(tmp_path / "texts.jsonl"), *OWN]
    assert main([*command, "-b", "0.4", "--dry-run"]) == 0
    head, half, whole, double, last = capsys.readouterr().out.splitlines()
    assert head.split() == ["total", "an", "item", "price", "quality"]
    qualities = [float(line.split()[-1]) for line in (half, whole, double)]
    assert qualities == sorted(set(qualities))
    assert "0.4 usd" in whole
    assert last == "120 items in 4 parts; nothing is scored"
    assert {path.name for path in tmp_path.iterdir()} == {index.name, "texts.jsonl"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-b", "60s"), "say with --total-cpu"),
        (("--total-cpu", "soon"), "such as 500ms, 60s, 5m or 2h"),
        (("--total-cpu", "1s", "--on", "ftp://x"), "is no place for workers"),
        (("--total-cpu", "1s", "--keep", "label"), "one of the answers' too"),
    ],
)
def test_score_into_a_folder_says_in_one_line_what_is_wrong(
    index: Path,
    capsys: pytest.CaptureFixture[str],
    options: tuple[object, ...],
    message: str,
) -> None:
    assert into_folder(index, *options) == 1
    assert message in capsys.readouterr().err.splitlines()[-1]
    assert not (index.parent / "out").exists()
