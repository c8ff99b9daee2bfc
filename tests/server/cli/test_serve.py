"""`polydom serve`, `plan` and `predict`: what they print and how they exit."""

import json
import socket
from importlib.metadata import version
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from polydom.indexer.index.index import Index
from polydom.server.__main__ import main
from polydom.server.cli.plan import explain
from polydom.server.cli.predict import IN_WORDS
from polydom.server.schema.predict import Reason
from tests.support.records import make_index as record_index
from tests.support.served import (
    FEATURES_FILE,
    HAM,
    SPAM,
    make_index,
    make_pair_index,
    save_index,
)

OWN = ["--features", str(FEATURES_FILE)]


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Exit code and what was printed to either stream."""
    code = main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return save_index(tmp_path)


def test_plan_prints_what_is_bought_cheaper_and_dearer(
    index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "plan", index, "--size", 100, "--budget-ms", 6)
    assert code == 0
    assert out.splitlines() == [
        "size 100, budget 6,000 us",
        "            predicted  accuracy  features, in order",
        "cheaper      1,200 us    0.7000  length",
        "bought       5,200 us    0.8000  length, marks",
        "dearer       9,200 us    0.9500  length, marks, words",
        "without HTTP; a server also keeps some time for answering",
    ]


@pytest.mark.parametrize(
    ("unit", "option"), [("s", "--budget-ms"), ("usd", "--budget")]
)
def test_plan_gives_the_prior_when_nothing_fits_as_predict_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], unit: str, option: str
) -> None:
    index = save_index(tmp_path, unit=unit)
    code, out, _ = run(capsys, "plan", index, "--size", 100, option, 0)
    assert code == 0
    assert "(none: the prior)" in out.splitlines()[3]
    assert "the budget buys nothing, so the prior answers" in out.splitlines()
    assert ("without HTTP" in out) == (unit == "s")
    code, out, _ = run(capsys, "plan", index, "--size", 100, option, 0, "--json")
    facts = json.loads(out)
    assert (code, facts["fits"], facts["bought"]["features"]) == (0, False, [])
    assert (facts["cheaper"], facts["dearer"]["features"]) == (None, ["length"])


def test_plan_is_short_for_a_size_that_is_very_large(
    index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "plan", index, "--size", 1e300, "--budget-ms", 6)
    assert code == 0
    assert out.splitlines()[0] == "size 1e+300, budget 6,000 us"
    assert out.splitlines()[4].startswith("dearer      1e+301 us ")
    assert max(map(len, out.splitlines())) < 60


def test_plan_takes_both_numbers_of_a_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_pair_index().save(tmp_path / "pairs.pdx")
    arguments = ("plan", tmp_path / "pairs.pdx", "--budget-ms", 9.8, "--size")
    code, out, _ = run(capsys, *arguments, "100x21")
    assert code == 0
    assert out.splitlines()[0] == "size 100 x 21, budget 9,800 us"
    assert out.splitlines()[3:5] == [
        "bought       5,200 us    0.8000  length, marks",
        "dearer      19,700 us    0.9500  length, marks, words",
    ]
    code, out, _ = run(capsys, *arguments, "100x1", "--json")
    facts = json.loads(out)
    assert (facts["size"], facts["bought"]["predicted_us"]) == ([100, 1], 9700)
    code, _, error = run(capsys, *arguments, "100")
    assert (code, "size is 100.0; 2 numbers, finite" in error) == (1, True)
    for wrong in ("100x", "1x2x3", "large"):
        code, _, error = run(capsys, *arguments, wrong)
        assert (code, f"'{wrong}' is neither a number" in error) == (2, True)


def test_plan_gives_a_prior_that_is_never_worth_buying() -> None:
    tiny = make_index()
    costs = np.vstack([tiny.coefficients[1], tiny.coefficients[1:]])
    index = Index.from_candidates(costs, tiny.accuracies, tiny.sizes, tiny.package)
    facts = explain(index, 100, 0.0, None)
    assert (facts["fits"], facts["bought"]["features"]) == (False, [])
    assert facts["dearer"]["features"] == ["length"]


def test_plan_gives_the_same_facts_as_json(
    index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("plan", index, "--size", 100, "--budget-ms", 1, "--json")
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    facts = json.loads(out)
    assert (facts["budget_us"], facts["fits"]) == (1000, True)
    assert facts["cheaper"] is None
    assert facts["bought"] == {
        "features": [],
        "predicted_us": 200,
        "expected_accuracy": 0.5,
    }
    assert facts["dearer"]["features"] == ["length"]


def test_plan_counts_money_where_the_index_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = save_index(tmp_path, unit="usd")
    code, out, _ = run(capsys, "plan", index, "--size", 100, "--budget", 0.006)
    assert code == 0
    assert "bought     0.0052 usd    0.8000  length, marks" in out


def test_plan_needs_no_size_of_a_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is always 1."""
    path = tmp_path / "records.pdx"
    record_index().save(path)
    said = run(capsys, "plan", path, "--budget-ms", 6)
    assert said[0] == 0
    assert said[1].startswith("size 1, budget")
    assert run(capsys, "plan", path, "--size", 1, "--budget-ms", 6) == said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--budget-ms", 1), "say how large the text is: --size, in characters"),
        (("--size", 100), "say how much the item may cost: --budget-ms"),
        (("--size", 0, "--budget-ms", 1), "size is 0.0"),
        (("--size", 100, "--budget-ms", "nan"), "budget_ms is nan"),
        (("--size", 100, "--budget", 1), "counts time"),
    ],
)
def test_plan_says_in_one_line_what_is_wrong(
    index: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[object, ...],
    message: str,
) -> None:
    code, out, err = run(capsys, "plan", index, *arguments)
    assert (code, out) == (1, "")
    assert err.startswith("polydom: ")
    assert message in err
    assert err.count("\n") == 1


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
    assert "by length, marks, words; expected accuracy 0.9500" in lines[0]


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
    noise.write_bytes(b"\xff\xfe")
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


def test_predict_has_words_for_every_reason() -> None:
    assert IN_WORDS.keys() == set(get_args(Reason))


def test_predict_needs_the_file_that_defines_the_users_own_features(
    index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "predict", index, tmp_path)
    assert code == 1
    assert "--features FILE" in err


@pytest.mark.parametrize("option", ["--budget-ms", "--max-budget-ms"])
@pytest.mark.parametrize("value", ["-3", "0", "nan", "inf"])
def test_serve_names_the_option_that_is_out_of_range(
    index: Path, capsys: pytest.CaptureFixture[str], option: str, value: str
) -> None:
    code, _, err = run(capsys, "serve", index, *OWN, option, value)
    assert (code, err) == (
        1,
        f"polydom: {option} {value}: a finite number above 0 is needed\n",
    )


def test_serve_says_which_address_it_cannot_have(
    index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, err = run(capsys, "serve", index, *OWN, "--port", port)
    assert code == 1
    assert f"cannot listen at 127.0.0.1, port {port}: Address already in use" in err


@pytest.mark.parametrize("command", ["serve", "plan", "predict"])
def test_help_has_an_example_that_names_the_command(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, command, "--help")
    assert code == 0
    assert f"Example: polydom {command} my.pdx" in out


def test_version_is_the_installed_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--version") == (0, f"polydom {version('polydom')}\n", "")


def test_help_says_what_polydom_is(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert "Answer predictions inside a time budget" in out
    assert "--version" in out


def test_wrong_usage_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "plan", "--siez", 3)
    assert code == 2
    assert "--siez" in err
