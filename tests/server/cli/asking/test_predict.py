"""`polydom predict` as it is typed."""

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from polydom.features.items import text_item
from polydom.server.cli.asking.predict import IN_WORDS, line_of
from polydom.server.engine.budget import Deadline
from polydom.server.engine.request import Outcome, Request
from polydom.server.runtime.translator import Translator
from polydom.server.schema.wire import Reason
from polydom.server.settings import Settings
from tests.support.indexes.free_records import save_records
from tests.support.indexes.served import FEATURES_FILE, HAM, SPAM, save_index
from tests.support.models.outcomes import outcome_of
from tests.support.planners import INDEX, planner_of
from tests.support.processes.commands import run

OWN = ["--features", str(FEATURES_FILE)]


def test_predict_answers_for_each_file(
    index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [tmp_path / "ham.txt", tmp_path / "spam.txt"]
    for path, text in zip(paths, (HAM, SPAM), strict=True):
        path.write_text(text)
    code, out, _ = run(capsys, "predict", index, *paths, *OWN, "--budget-ms", 900)
    assert code == 0
    lines = out.splitlines()
    assert [line.split(" (")[0] for line in lines] == [
        f"{paths[0]}: ham",
        f"{paths[1]}: spam",
    ]
    assert "by length, marks, words; expected accuracy 0.950" in lines[0]


def test_predict_prints_the_servers_answer_as_json(
    index: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (tmp_path / "spam.txt").write_text(SPAM)
    with (tmp_path / "spam.txt").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        arguments = ("predict", index, "-", *OWN, "--budget-ms", 0, "--json")
        code, out, _ = run(capsys, *arguments)
    assert code == 0
    answer = json.loads(out)
    assert (answer["item"], answer["label"], answer["features"]) == ("-", "ham", [])
    assert (answer["reason"], answer["budget_met"]) == ("infeasible", False)


def test_predict_refuses_files_that_are_no_item(
    index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noise = tmp_path / "noise.txt"
    noise.write_bytes(b"\xffa")
    for path, message in (
        (tmp_path / "none.txt", "none.txt: No such file"),
        (tmp_path, "this is a folder; name its files, or use `polydom score`"),
        (noise, "noise.txt: it is not UTF-8 (byte 0); a text in UTF-8 is needed"),
    ):
        code, _, err = run(capsys, "predict", index, path, *OWN)
        assert (code, err.count("\n")) == (1, 1)
        assert message in err


@pytest.mark.parametrize("as_json", [False, True])
def test_predict_answers_for_the_other_files_where_one_is_unusable(
    index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    texts = {"a.txt": HAM, "b.txt": "a\x00", "d.txt": SPAM}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    paths = [tmp_path / name for name in ("a.txt", "b.txt", "none.txt", "d.txt")]
    options = [*OWN, "--budget-ms", 900, *["--json"] * as_json]
    code, out, err = run(capsys, "predict", index, *paths, *options)
    assert code == 1
    if as_json:
        answers = [json.loads(line) for line in out.splitlines()]
        assert [(a["item"], a["label"]) for a in answers] == [
            (str(paths[0]), "ham"),
            (str(paths[3]), "spam"),
        ]
        errors = [json.loads(line) for line in err.splitlines()]
        assert [e["file"] for e in errors] == [str(paths[1]), str(paths[2])]
        assert "'words'" in errors[0]["error"]
        assert errors[1]["error"] == "No such file or directory"
        return
    lines = [line.split(" (")[0] for line in out.splitlines()]
    assert lines == [f"{paths[0]}: ham", f"{paths[3]}: spam"]
    words, none = err.splitlines()
    assert words.startswith(f"polydom: {paths[1]}: ")
    assert none == f"polydom: {paths[2]}: No such file or directory"


def test_predict_says_in_words_why_it_is_not_the_best_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = save_index(tmp_path, unit="usd")
    (tmp_path / "a.txt").write_text(HAM)
    arguments = ("predict", index, tmp_path / "a.txt", *OWN, "--budget")
    _, out, _ = run(capsys, *arguments, 0.005)
    assert out.rstrip().endswith("; a larger budget would buy a better model")
    _, out, _ = run(capsys, *arguments, 0)
    assert "; the budget buys nothing that was asked for; budget missed" in out


@pytest.mark.parametrize(
    ("outcome", "score", "notes"),
    [
        (
            outcome_of(12),
            "spam (0.812)",
            "; what was computed first was enough to be sure; 12 of 300 base models",
        ),
        (outcome_of(12, scores=None), "spam (0.750 to 0.938)", "12 of 300 base models"),
        (
            outcome_of(12, scores=None, score_bounds=None, reason="budget"),
            "spam (no score)",
            "; a larger budget would buy a better model; 12 of 300 base models",
        ),
        (outcome_of(300), "spam (0.875)", "; 300 of 300 base models"),
        (outcome_of(None), "spam (0.875)", " predicted"),
    ],
)
def test_predict_says_what_the_score_can_come_to_where_the_model_stopped(
    outcome: Outcome, score: str, notes: str
) -> None:
    translator = Translator(planner_of(INDEX), Settings())
    request = Request(text_item(SPAM), Deadline(translator.planner.now(), 99.0))
    answer = translator.answer(request, outcome)
    line = line_of(Path("a.txt"), answer, translator.planner.package)
    assert line.startswith(f"a.txt: {score} by length, marks, words; ")
    assert line.endswith(notes)


def test_predict_has_words_for_every_reason() -> None:
    assert IN_WORDS.keys() == set(get_args(Reason))


def test_predict_needs_the_file_that_defines_the_users_own_features(
    index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "predict", index, tmp_path)
    assert code == 1
    assert "--features FILE" in err


@pytest.mark.parametrize("command", ["predict", "plan"])
@pytest.mark.parametrize(
    ("unit", "given", "said"),
    [
        ("s", ("--budget-ms", -1), "--budget-ms is -1.0; it must be a finite number"),
        ("s", ("--budget", 5), "give '--budget-ms', not '--budget'"),
        ("usd", ("--budget", "nan"), "--budget is nan; it must be a finite number"),
        ("usd", ("--budget-ms", 5), "give '--budget' in that unit, not '--budget-ms'"),
    ],
)
def test_a_budget_that_is_none_is_named_as_it_was_given(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
    unit: str,
    given: tuple[Any, Any],
    said: str,
) -> None:
    index = save_index(tmp_path, unit=unit)
    (tmp_path / "a.txt").write_text(HAM)
    rest = (tmp_path / "a.txt", *OWN) if command == "predict" else ("--size", 100)
    code, out, err = run(capsys, command, index, *rest, *given)
    assert (code, out) == (1, "")
    assert said in err


def test_predict_says_what_to_write_instead_of_what_is_no_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    contents = {
        "mark": b"\xef\xbb\xbf" + b'{"age": 20}',
        "nan": b'{"age": NaN}',
        "python": b"{'age': 20}",
        "utf16": '{"age": 20}'.encode("utf-16"),
        "twice": b'{"record": {"age": 20}}',
    }
    paths = {name: tmp_path / f"{name}.json" for name in contents}
    for name, content in contents.items():
        paths[name].write_bytes(content)
    code, out, err = run(capsys, "predict", save_records(tmp_path), *paths.values())
    assert code == 1
    assert out.startswith(f"{paths['mark']}: no (1.000)")
    nan, python, utf16, twice = err.splitlines()
    assert "NaN is no JSON: null is a gap" in nan
    assert "JSON has double quotes, not single ones" in python
    assert "it looks like UTF-16: send UTF-8" in utf16
    assert "column 'record' holds a dict" in twice
    assert twice.endswith("; are the columns in it?")
