"""`polydom plan` as it is typed, and the facts behind it."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polydom.indexer.index.index import Index
from polydom.server.cli.asking.plan import explain
from tests.support.indexes import fetched
from tests.support.indexes.records import make_index as record_index
from tests.support.indexes.served import make_index, make_pair_index, save_index
from tests.support.processes.commands import run


def test_plan_prints_what_is_bought_cheaper_and_dearer(
    index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "plan", index, "--size", 100, "--budget-ms", 6)
    assert code == 0
    assert out.splitlines() == [
        "size 100, budget 6.00 ms",
        "                costs  accuracy  features, in computing order",
        "cheaper       1.20 ms     0.700  length",
        "bought        5.20 ms     0.800  length, marks",
        "dearer        9.20 ms     0.950  length, marks, words",
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
    assert "no feature: the prior answers" in out.splitlines()[3]
    assert "the budget buys no feature: " in out
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
    assert out.splitlines()[0] == "size 1e+300, budget 6.00 ms"
    assert out.splitlines()[4].startswith("dearer      1e+298 ms ")
    assert max(map(len, out.splitlines())) < 80


def test_plan_takes_both_numbers_of_a_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_pair_index().save(tmp_path / "pairs.pdx")
    arguments = ("plan", tmp_path / "pairs.pdx", "--budget-ms", 9.8, "--size")
    code, out, _ = run(capsys, *arguments, "100x21")
    assert code == 0
    assert out.splitlines()[0] == "size 100 x 21, budget 9.80 ms"
    assert out.splitlines()[3:5] == [
        "bought        5.20 ms     0.800  length, marks",
        "dearer        19.7 ms     0.950  length, marks, words",
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
    index = Index.from_candidates(costs, tiny.qualities, tiny.sizes, tiny.package)
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
        "expected_quality": 0.5,
        "expected_accuracy": 0.5,
    }
    assert facts["dearer"]["features"] == ["length"]


def test_plan_counts_money_where_the_index_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = save_index(tmp_path, unit="usd")
    code, out, _ = run(capsys, "plan", index, "--size", 100, "--budget", 0.006)
    assert code == 0
    assert "bought     0.0052 usd     0.800  length, marks" in out


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
        (("--size", 100, "--budget-ms", "nan"), "--budget-ms is nan"),
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


def test_plan_names_the_file_that_holds_no_models(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bare.pdx"
    replace(make_index(), package=None).save(path)
    code, _, err = run(capsys, "plan", path, "--budget-ms", 1)
    assert (code, err.count("\n")) == (1, 1)
    assert err.startswith(f"polydom: {path}: candidates without models: ")


def test_plan_says_what_has_come_by_then(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = fetched.save_index(tmp_path)
    code, out, _ = run(capsys, "plan", path, "--budget-ms", 5)
    assert code == 0
    assert out.splitlines()[3:] == [
        "bought      0.0500 ms     0.900  person, work, history",
        "dearer              -",
        "employer has come by then in 98 of 100 requests",
        "orders has come by then in 15.5 of 100 requests",
        "expected accuracy of answers with what has come: 0.770",
        "the sets above are for requests for which all fetches have come",
        "without HTTP; a server also keeps some time for answering",
    ]
    code, out, _ = run(capsys, "plan", path, "--budget-ms", 5, "--json")
    facts = json.loads(out)
    assert facts["came"] == {"employer": 0.98, "orders": 0.155}
    # without the fetches, `person` alone answers
    assert explain(fetched.make_index(), 1.0, 0.05, None)["expected_quality"] == 0.6
