"""A new index is refused if it answers recent items worse; ties and gains pass."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from polydom.features.items import record_item
from polydom.indexer.index.file.pdx_file import read_version
from polydom.indexer.index.index import Index
from polydom.server.errors import ReloadFailed, WorseIndex
from polydom.server.evaluation import gate as gate_module
from polydom.server.evaluation.gate import EvaluationGate, Question, Verdict
from polydom.server.evaluation.judge import judge
from tests.support.indexes import records
from tests.support.indexes.numbers import save_index as save_numbers
from tests.support.indexes.served import FEATURES_FILE

COUNT = 60


def said_by_the_model(person: dict[str, Any]) -> str:
    """The answer of the good index's best model."""
    package = records.make_index().package
    assert package is not None
    columns = package.extractor().extract(record_item(person))
    return package.labels[package.models[2].answer(columns)[0]]


def write_items(folder: Path, count: int = COUNT) -> Path:
    """Write people, labelled as the good index answers; every tenth otherwise."""
    path = folder / "recent.jsonl"
    people = [dict(records.PEOPLE[n % 4], age=20 + n % 40) for n in range(count)]
    other = {"stays": "flies", "flies": "stays"}
    said = [said_by_the_model(person) for person in people]
    labels = [other[label] if n % 10 == 9 else label for n, label in enumerate(said)]
    rows = [
        {**person, "label": label} for person, label in zip(people, labels, strict=True)
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def save_prior(path: Path) -> Path:
    """Write an index that answers every item by the prior alone."""
    index = records.make_index()
    assert index.package is not None
    prior = index.package.models[0]
    package = replace(index.package, models=(prior,) * 3)
    costs = index.coefficients
    Index.from_candidates(costs, index.qualities, index.sizes, package).save(path)
    return path


@pytest.fixture
def good(tmp_path: Path) -> Path:
    records.make_index().save(tmp_path / "good.pdx")
    return tmp_path / "good.pdx"


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    return save_prior(tmp_path / "bad.pdx")


def compared(old: Path, new: Path, test: Path, *features: str) -> Verdict:
    question = Question(str(old), str(new), str(test), "label", [*features], 0.05)
    return judge(question)


def test_the_rule_is_one_standard_error_of_the_difference() -> None:
    def worse(old: float, new: float, error: float) -> bool:
        return Verdict(old, new, error, 9, "accuracy", ("a", "b")).worse

    assert not worse(0.9, 0.9, 0.0)
    assert not worse(0.5, 0.25, 0.25)
    assert worse(0.5, 0.25, 0.24)
    assert worse(0.9, 0.8, 0.0)
    assert not worse(0.8, 0.9, 0.0)


def test_quality_is_that_of_each_index_on_the_same_items(
    tmp_path: Path, good: Path, bad: Path
) -> None:
    test = write_items(tmp_path)
    verdict = compared(good, bad, test)
    assert verdict.items == COUNT
    assert (verdict.measure, verdict.worse) == ("accuracy", True)
    assert verdict.versions == (read_version(good), read_version(bad))
    # the twin: the model's answers, counted one by one
    rows = [json.loads(line) for line in test.read_text().splitlines()]
    right = sum(row.pop("label") == said_by_the_model(row) for row in rows)
    assert verdict.old == pytest.approx(right / COUNT) == pytest.approx(0.9)
    labels = [json.loads(line)["label"] for line in test.read_text().splitlines()]
    shares = {labels.count(label) / COUNT for label in ("stays", "flies")}
    assert any(verdict.new == pytest.approx(share) for share in shares)
    assert 0 < verdict.error < 0.2


@pytest.mark.parametrize("count", [1, 2, COUNT])
def test_ties_and_gains_pass(tmp_path: Path, good: Path, bad: Path, count: int) -> None:
    test = write_items(tmp_path, count)
    same = compared(good, records.save_better(tmp_path / "same.pdx"), test)
    assert (same.old == same.new, same.error, same.worse) == (True, 0.0, False)
    assert not compared(bad, good, test).worse
    assert compared(good, good, test) == compared(good, good, test)


def test_numbers_are_compared_by_their_measure(tmp_path: Path) -> None:
    path = save_numbers(tmp_path)
    index = Index.load(path)
    assert index.package is not None
    sample = index.package.meta["samples"][0]
    rows = [{"text": sample, "label": float(n)} for n in range(9)]
    test = tmp_path / "recent.jsonl"
    test.write_text("\n".join(map(json.dumps, rows)))
    verdict = compared(path, path, test, str(FEATURES_FILE))
    assert (verdict.measure, verdict.worse) == (index.package.measure, False)
    assert verdict.old == verdict.new


def test_indexes_are_compared_once_for_all_workers(
    tmp_path: Path, good: Path, bad: Path
) -> None:
    gate = EvaluationGate(write_items(tmp_path))
    old, new = read_version(good), read_version(bad)
    gate.keep({old: good})
    save_prior(good)  # the served file is replaced, and a copy of the old one is kept
    for _ in range(2):
        with pytest.raises(WorseIndex) as caught:
            gate.refuse_worse("my", old, bad, new)
        assert "its accuracy is 0." in str(caught.value)
        assert "that of the old index 0.9" in str(caught.value)
        assert f"{COUNT} recent items" in str(caught.value)
        bad.unlink(missing_ok=True)  # the second time, the verdict is read
    assert not gate.passed(old, new)
    assert not gate.passed(new, old)
    records.save_better(bad)
    better = read_version(bad)
    gate.refuse_worse("my", old, bad, better)
    assert gate.passed(old, better)
    os.utime(tmp_path / "recent.jsonl", ns=(1, 1))
    assert not gate.passed(old, better), "new items make a new verdict"


def test_what_cannot_be_compared_is_refused(
    tmp_path: Path, good: Path, bad: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = write_items(tmp_path)
    gate, old = EvaluationGate(test), read_version(good)
    with pytest.raises(ReloadFailed, match="cannot compare"):
        gate.refuse_worse("my", old, bad, read_version(bad))
    gate.keep({old: good})
    gate.keep({old: bad})
    gate.keep({"0" * 64: bad})
    with pytest.raises(ReloadFailed, match="replaced meanwhile"):
        gate.refuse_worse("my", old, bad, old[::-1])
    with pytest.raises(ReloadFailed, match="cannot compare"):
        gate.refuse_worse("my", "0" * 64, bad, read_version(bad))
    test.write_text('{"age": 1}')
    with pytest.raises(ReloadFailed, match="none of its 1 rows has a 'label'"):
        gate.refuse_worse("my", old, bad, read_version(bad))
    monkeypatch.setattr(gate_module, "GATE_S", 0.01)
    with pytest.raises(ReloadFailed, match="took longer"):
        gate.refuse_worse("my", old, bad, read_version(bad))


def test_copies_are_kept_of_what_is_served(
    tmp_path: Path, good: Path, bad: Path
) -> None:
    gate = EvaluationGate(write_items(tmp_path))
    old, new = read_version(good), read_version(bad)
    gate.keep({old: good})
    (copy,) = gate._folder.glob("*.pdx")
    os.utime(copy, (1, 1))
    gate.keep({old: good})
    assert copy.exists()
    with pytest.raises(WorseIndex):
        gate.refuse_worse("my", old, bad, new)
    gate.keep({new: bad})
    assert copy.exists(), "another worker may serve it"
    os.utime(copy, (1, 1))
    gate.keep({new: bad})
    assert [file.stem for file in gate._folder.glob("*.pdx")] == [new]


def test_the_folder_of_the_server_may_have_modules_of_any_name(
    tmp_path: Path, good: Path, bad: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "msgspec.py").write_text("raise RuntimeError")
    monkeypatch.chdir(tmp_path)
    gate, old = EvaluationGate(write_items(tmp_path)), read_version(bad)
    gate.keep({old: bad})
    gate.refuse_worse("my", old, good, read_version(good))
