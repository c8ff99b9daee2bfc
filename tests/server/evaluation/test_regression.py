"""`polydom evaluate` x what answers are, and what quality measures."""

import json
from pathlib import Path
from typing import Any

import pytest

from polydom.features.items import text_item
from tests.support.indexes import numbers
from tests.support.indexes.served import FEATURES_FILE, HAM, TEXTS
from tests.support.oracles import evaluation as oracle
from tests.support.processes.commands import run

OWN = ["--features", str(FEATURES_FILE)]
MEAN = 6.0


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """The texts and their numbers, two of which are none."""
    rows: list[dict[str, Any]] = [
        {"text": text, "label": label}
        for text, label in zip(TEXTS, numbers.LABELS, strict=True)
    ]
    rows += [{"text": HAM, "label": "many"}, {"text": HAM, "label": None}]
    path = tmp_path / "test.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


@pytest.fixture
def baseline(tmp_path: Path) -> str:
    """A regressor that counts characters."""
    (tmp_path / "baseline.py").write_text(
        "class Model:\n"
        "    def predict(self, texts):\n"
        "        return [len(text) / 2 for text in texts]\n"
    )
    return f"{tmp_path / 'baseline.py'}:Model"


def values_of(row: int) -> list[float]:
    package = numbers.package_of(numbers.make_index())
    extractor = package.extractor([FEATURES_FILE])
    columns = [extractor.extract(text_item(text)) for text in TEXTS]
    return [package.models[row].answer(one)[1][0] for one in columns]


def test_numbers_are_judged_beside_a_regressor(
    tmp_path: Path, texts: Path, baseline: str, capsys: pytest.CaptureFixture[str]
) -> None:
    index = numbers.save_index(tmp_path, unit="usd")
    options = ["--budgets", "0.0001,0.01", "--against", baseline, "--json"]
    code, out, err = run(capsys, "evaluate", index, texts, *OWN, *options)
    assert code == 0, err
    assert "left out: 1; the first, 6: the label 'many' is no number" in err
    assert "items without a label, left out: 1" in err
    found = json.loads(out)
    said = found["task"], found["measure"], found["coverage"], found["confusion"]
    assert said == ("regression", "r2", numbers.COVERAGE, None)
    labels = numbers.LABELS
    answers = ([MEAN] * 6, values_of(3), [MEAN] * 6, values_of(1), values_of(3))
    own = [len(text) / 2 for text in TEXTS]
    rows = (0, 3, 0, 1, 3, None)
    judged = [*found["budgets"], *found["beside"]]
    assert [one["name"] for one in judged[2:]] == [
        *("prior", "cheapest plan", "largest plan", baseline)
    ]
    for one, values, row in zip(judged, (*answers, own), rows, strict=True):
        interval = None if row is None else numbers.INTERVALS[row]
        replies = [
            oracle.PlainNumber(
                position,
                label,
                value,
                0.0,
                interval and (value + interval[0], value + interval[1]),
            )
            for position, (label, value) in enumerate(zip(labels, values, strict=True))
        ]
        for name, expected in oracle.judged_numbers(replies, MEAN).items():
            assert one[name] == pytest.approx(expected), (one["name"], name)
        assert one["quality"] == one["r2"]
        assert "accuracy" not in one
    assert [one["expected_quality"] for one in found["budgets"]] == [0.0, 0.9]
    assert found["budgets"][0]["expected_accuracy"] is None
    largest = found["beside"][2]
    assert largest["quality_inside"] == [0.0, pytest.approx(largest["r2"])]
    assert found["beside"][3]["quality_inside"] == [None, None]


def test_numbers_are_shown(
    tmp_path: Path, texts: Path, baseline: str, capsys: pytest.CaptureFixture[str]
) -> None:
    index = numbers.save_index(tmp_path)
    options = ["--budgets", "900", "--against", baseline]
    code, out, err = run(capsys, "evaluate", index, texts, *OWN, *options)
    assert code == 0, err
    lines = [" ".join(line.split()) for line in out.splitlines()]
    good = "R2 expected mean error RMSE in interval (of 90.0%)"
    assert lines[2:4] == ["R2 and time", f"{good} inside early p50 ms p99 ms"]
    assert "R2 where the mean answers for what is late, of so many ms" in lines
    assert "accuracy" not in out
    assert "polydom, 900 ms: 100.0% length, marks, words" in lines


def test_a_number_may_have_a_decimal_comma(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "test.csv"
    path.write_text("text;label\nhi;1,5\nwin!;2,5\n")
    index = numbers.save_index(tmp_path)
    options = ["--budgets", "900", "--separator", ";", "--json"]
    code, out, err = run(capsys, "evaluate", index, path, *OWN, *options)
    assert code == 0, err
    (prior, *_) = json.loads(out)["beside"]
    assert prior["mae"] == pytest.approx((4.5 + 3.5) / 2)


def test_another_measure_leads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index, path = tmp_path / "balanced.pdx", tmp_path / "test.jsonl"
    numbers.make_balanced_index().save(index)
    rows = [{"text": text, "label": "ham"} for text in TEXTS]
    rows.append({"text": TEXTS[3], "label": "spam"})
    path.write_text("\n".join(map(json.dumps, rows)))
    code, out, err = run(capsys, "evaluate", index, path, *OWN, "--budgets", "900")
    assert code == 0, err
    lines = [" ".join(line.split()) for line in out.splitlines()]
    heads = "balanced accuracy expected accuracy inside early p50 ms p99 ms"
    assert lines[2:4] == ["balanced accuracy and time", heads]
    arguments = ("evaluate", index, path, *OWN, "--budgets", "900", "--json")
    code, out, _ = run(capsys, *arguments)
    found = json.loads(out)
    (own,) = found["budgets"]
    assert found["measure"] == "balanced_accuracy"
    assert own["quality"] == own["balanced_accuracy"] != own["accuracy"]
    expected = own["expected_quality"], own["expected_accuracy"]
    assert expected == pytest.approx((0.8, 0.95))
    assert lines[4].startswith(
        f"polydom, 900 ms {own['quality']:.3f} ± {own['quality_error']:.3f} 0.800 "
        f"{own['accuracy']:.3f} ± {own['standard_error']:.3f}"
    )
