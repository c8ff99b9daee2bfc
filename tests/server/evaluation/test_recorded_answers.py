"""Recorded answers are joined with labels by id, and told as those who ask see them."""

import gzip
import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from polydom.features.errors import BadInput
from polydom.server.answer_log.log_file import compress
from polydom.server.evaluation.recorded_answers import read_labels, read_recorded
from tests.support.indexes import records
from tests.support.processes.commands import run as run_command

LINE: dict[str, Any] = {
    "time": "2026-11-27T10:00:00.000000Z",
    "id": "a",
    "entrance": "predict",
    "model": "people",
    "size": 1.0,
    "status": 200,
    "label": "flies",
    "scores": {"stays": 0.25, "flies": 0.75},
    "features": ["person"],
    "expected_quality": 0.7,
    "expected_accuracy": 0.7,
    "reason": None,
    "budget_met": True,
    "budget_us": 5000.0,
    "actual_us": 30.0,
    "queue_us": 1.0,
    "elapsed_us": 400.0,
    "index_version": "v1",
    "record": records.PEOPLE[0],
}


def evaluated(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    code, out, err = run_command(capsys, "evaluate", *arguments)
    assert code == 0, err
    return out


def write(
    folder: Path, *lines: dict[str, Any], name: str = "answers-0-1.jsonl"
) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def drawn_lines(count: int) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Answers of two versions, several plans and reasons, and labels of most."""
    rng = np.random.default_rng(5)
    lines, labels = [], {}
    for number in range(count):
        label = str(rng.choice(["stays", "flies"]))
        line = {
            **LINE,
            "id": f"id-{number}",
            "label": label,
            "features": [[], ["person"], ["person", "work"]][rng.integers(3)],
            "reason": [None, "budget", "waited"][rng.integers(3)],
            "index_version": ["v1", "v2"][rng.integers(2)],
            "budget_met": bool(rng.random() < 0.9),
            "expected_quality": float(rng.random()),
            "elapsed_us": float(rng.exponential(1000)),
        }
        lines.append(line)
        if rng.random() < 0.8:
            wrong = {"stays": "flies", "flies": "stays"}[label]
            labels[f"id-{number}"] = label if rng.random() < 0.7 else wrong
    return lines, labels


def test_groups_of_answers_are_those_of_a_slow_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines, own = drawn_lines(300)
    half = len(lines) // 2
    folder = write(tmp_path / "folder", *lines[:half])
    packed = "".join(json.dumps(line) + "\n" for line in lines[half:])
    (folder / "answers-1-1.jsonl.gz").write_bytes(gzip.compress(packed.encode()))
    labels = tmp_path / "labels.csv"
    rows = "".join(f"{id},{label}\n" for id, label in own.items())
    labels.write_text("request,truth\n" + rows)
    index = records.save_index(tmp_path)
    given = ["--record", str(folder), "--labels", str(labels), "--id", "request"]
    done = evaluated(capsys, index, *given, "--label", "truth", "--json")
    found = json.loads(done)["answered"]
    assert (found["recorded"], found["unmatched"]) == (300, 0)
    kinds: dict[str, Callable[[dict[str, Any]], str]] = {
        "by_version": lambda line: line["index_version"],
        "by_reason": lambda line: line["reason"] or "",
        "by_plan": lambda line: ", ".join(line["features"]),
    }
    known = [line for line in lines if line["id"] in own]
    for kind, name in kinds.items():
        groups = defaultdict(list)
        for line in known:
            groups[name(line)].append(line)
        told = {group["name"]: group for group in found[kind]}
        assert told.keys() == groups.keys()
        for key, group in groups.items():
            check(told[key], group, own, len(known))
    check(found["all"], known, own, len(known))
    shown = evaluated(capsys, index, *given, "--label", "truth")
    assert f"{len(known)} of 300 answers recorded in {folder} have labels" in shown
    for head in ("what was answered, by version", "by reason", "no reason", "v2"):
        assert head in shown


def check(
    told: dict[str, Any], group: list[dict[str, Any]], own: dict[str, str], of: int
) -> None:
    right = [line["label"] == own[line["id"]] for line in group]
    met = [line["budget_met"] for line in group]
    both = [r and m for r, m in zip(right, met, strict=True)]
    took = [line["elapsed_us"] / 1e3 for line in group]
    assert told["answers"] == len(group)
    assert told["share"] == pytest.approx(len(group) / of)
    assert told["quality"] == told["accuracy"] == pytest.approx(np.mean(right))
    assert told["in_time"] == pytest.approx(np.mean(met))
    assert told["right_in_time"] == pytest.approx(np.mean(both))
    expected = np.mean([line["expected_quality"] for line in group])
    assert told["expected_quality"] == pytest.approx(expected)
    assert told["p50_ms"] == pytest.approx(np.quantile(took, 0.5))
    assert told["p99_ms"] == pytest.approx(np.quantile(took, 0.99))


def test_lines_that_are_no_answers_are_counted(tmp_path: Path) -> None:
    failed = {"time": LINE["time"], "id": "b", "status": 504, "code": "nothing_fits"}
    folder = write(tmp_path / "folder", LINE, failed, {"id": "c", "status": 200})
    with (folder / "answers-0-1.jsonl").open("a") as file:
        file.write("\n" + json.dumps(LINE)[:200])  # killed while it wrote
    write(folder, {**LINE, "label": "stays"}, name="answers-1-1.jsonl")
    earlier = {**LINE, "time": "2026-11-27T09:59:59Z", "index_version": "v0"}
    write(folder, {**LINE, "id": "d"}, earlier, name="answers-2-1.jsonl")
    (folder / "answers-3-1.jsonl").touch()
    (folder / "notes.txt").write_text("no answers")
    found = read_recorded(folder, {"a": "stays", "z": "stays"})
    ((answer, label),) = found.labelled
    assert (answer.label, answer.index_version, label) == ("stays", "v1", "stays")
    assert answer.item("record") == records.PEOPLE[0]
    assert answer.item("text") is None
    assert found[1:] == (4, {"nothing_fits": 1}, 2, 1)
    assert found.remarks() == [
        "recorded answers without a label, left out: 3",
        "labels without a recorded answer: 1",
        "recorded errors, left out: nothing_fits 1",
        "lines that are not whole or no answers, left out: 2",
    ]


def test_files_that_a_server_compresses_or_deletes_meanwhile_are_read_or_left_out(
    tmp_path: Path,
) -> None:
    for number, id in enumerate("abc"):
        write(tmp_path, {**LINE, "id": id}, name=f"answers-0-{number}.jsonl")

    class Labels(dict[str, str]):
        def __contains__(self, id: object) -> bool:
            if id == "a":  # the first file is being read
                compress(tmp_path / "answers-0-1.jsonl")
                (tmp_path / "answers-0-2.jsonl").unlink()
            return super().__contains__(id)

    found = read_recorded(tmp_path, Labels(a="stays", b="flies", c="flies"))
    assert [one.answer.id for one in found.labelled] == ["a", "b"]
    assert (found.answers, found.unmatched) == (2, 1)


def test_a_record_that_does_not_fit_its_labels_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "folder", LINE, {**LINE, "id": "b", "model": "pets"})
    both = {"a": "stays", "b": "stays"}
    with pytest.raises(BadInput, match="models people, pets: choose one"):
        read_recorded(folder, both)
    assert len(read_recorded(folder, both, "pets").labelled) == 1
    with pytest.raises(BadInput, match="no answer of model 'fish' is recorded there"):
        read_recorded(folder, both, "fish")
    with pytest.raises(
        BadInput,
        match=r"none of the 1 ids with a label is recorded in .*; ids of labels are "
        "such as x, recorded ones such as 'b'",
    ):
        read_recorded(folder, {"x": "stays"})
    with pytest.raises(BadInput, match="a folder is needed that a server wrote"):
        read_recorded(tmp_path / "none", both)
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match="a server has recorded nothing there"):
        read_recorded(tmp_path / "empty", both)
    (folder / "answers-0-2.jsonl.gz").write_bytes(b"not packed")
    with pytest.raises(BadInput, match=r"answers-0-2\.jsonl\.gz: "):
        read_recorded(folder, both)


def test_labels_are_read_by_id(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("id,label\n1,x\n2,\n,y\n1,x\n003,z\n")
    assert read_labels(path) == {"1": "x", "003": "z"}
    (tmp_path / "labels.jsonl").write_text('{"id": 7, "label": "x"}\n')
    assert read_labels(tmp_path / "labels.jsonl") == {"7": "x"}
    written = pa.table({"id": [b'a"1', b"b"], "label": ["x", "y"]})
    pq.write_table(written, tmp_path / "labels.parquet")
    assert read_labels(tmp_path / "labels.parquet") == {'a"1': "x", "b": "y"}
    wrong = {
        "id,label\n1,x\n1,y\n": "the id '1' has two different labels",
        "id,label\n1,\n": "none of its rows has an id and a label",
        "number,label\n1,x\n": "no column 'id'",
        "id,truth\n1,x\n": "no column 'label'",
    }
    for text, said in wrong.items():
        path.write_text(text)
        with pytest.raises(BadInput, match=said):
            read_labels(path)
    with pytest.raises(BadInput, match=r"^--labels .*: a \.csv"):
        read_labels(tmp_path)


def test_another_index_answers_the_recorded_items_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    people = enumerate(records.PEOPLE)
    lines = [{**LINE, "id": f"{k}", "record": person} for k, person in people]
    folder = write(tmp_path / "folder", *lines)
    labels = tmp_path / "labels.csv"
    names = ["stays", "flies"]
    rows = "".join(f"{k},{names[flies]}\n" for k, flies in enumerate(records.FLIES))
    labels.write_text("id,label\n" + rows)
    index = records.save_index(tmp_path)
    given = ["--record", str(folder), "--labels", str(labels), "--json"]
    found = json.loads(evaluated(capsys, index, *given, "--budgets", "9000"))
    assert found["items"] == len(records.PEOPLE)
    assert found["budgets"][0]["accuracy"] == 1.0  # of this index
    assert found["answered"]["all"]["accuracy"] == 0.5  # of the one that was served
