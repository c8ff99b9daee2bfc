"""Records that do not suit an index are refused with what would."""

import math
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

from polydom.features.errors import BadItem
from polydom.indexer.index.built_facts import BuiltGaps
from polydom.indexer.index.column_needs import USUAL, coming_together
from polydom.indexer.index.stored_features import StoredFeature
from polydom.server.__main__ import main
from polydom.server.app import create_app
from polydom.server.runtime.known_columns import SHOWN, KnownColumns
from tests.support.indexes.free_records import save_records, stored
from tests.support.waiting import until_ready

REFUSED = [
    ({"agee": 31}, "the index knows no column 'agee'; did you mean 'age'?"),
    ({"age": 31, "xyz": 1}, "'xyz'; it knows age, job, income"),
    ({}, "the record has no columns; the index knows age, job, income"),
    ({"age": "old"}, "column 'age' holds 'old'; a number is needed"),
]


def test_app_refuses_records_that_do_not_suit_the_index(tmp_path: Path) -> None:
    with TestClient(create_app(save_records(tmp_path))) as client:
        until_ready(client)
        for record, message in REFUSED:
            reply = client.post("/v1/predict", json={"record": record})
            assert (reply.status_code, reply.json()["code"]) == (400, "bad_item")
            assert message in reply.json()["error"]
        for record in ({"age": 61}, {"age": 61, "job": "pilot", "income": None}):
            reply = client.post("/v1/predict", json={"record": record})
            assert reply.json()["label"] == "yes"


def test_predict_refuses_records_that_do_not_suit_the_index(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index, path = save_records(tmp_path), tmp_path / "one.json"
    path.write_text('{"agee": 31}')
    assert main(["predict", str(index), str(path)]) == 1
    assert "no column 'agee'; did you mean 'age'?" in capsys.readouterr().err


def test_columns_lets_anything_through_where_a_function_reads_the_record() -> None:
    own = StoredFeature("own", 1, "", False)
    known = KnownColumns([stored("person", ["age"]), own, stored("more", ["job"])])
    assert known.names == ()
    known.check({"whatever": 1})
    known.check({})


def test_columns_shows_only_some_of_many() -> None:
    names = [f"c{i}" for i in range(SHOWN + 1)]
    with pytest.raises(BadItem, match=r"knows c0, .*, c9, \.\.\."):
        KnownColumns([stored("many", names)]).check({})


PERSON, JOB = stored("person", ["age", "height"]), stored("job", ["job"])
OWN = StoredFeature("own", 1, "", False)
NEVER = BuiltGaps({}, {})


@pytest.mark.parametrize(
    ("gaps", "empty", "withheld"),
    [
        pytest.param(NEVER, [], [], id="whole"),
        pytest.param(NEVER, ["age"], ["person"], id="one that never was empty"),
        pytest.param(NEVER, ["age", "job"], ["person", "job"], id="one of each"),
        pytest.param(NEVER, ["age", "height", "job"], ["person", "job"], id="all"),
        pytest.param(
            BuiltGaps({"age": 0.001}, {}), ["age"], [], id="one that was, if seldom"
        ),
        pytest.param(
            BuiltGaps({"age": 0.001}, {}), ["height"], ["person"], id="the other one"
        ),
        pytest.param(
            BuiltGaps({"age": 0.5, "height": 0.5}, {"person": 0.049}),
            ["age", "height"],
            ["person"],
            id="nothing of it, which was seldom so",
        ),
        pytest.param(
            BuiltGaps({"age": 0.5, "height": 0.5}, {"person": USUAL}),
            ["age", "height"],
            [],
            id="nothing of it, which was usual",
        ),
        pytest.param(BuiltGaps({"job": 0.3}, {"job": 0.3}), ["job"], [], id="a value"),
        pytest.param(None, ["age"], [], id="not known, and something came"),
        pytest.param(None, ["job"], ["job"], id="not known, and nothing came"),
    ],
)
def test_features_are_withheld_where_no_model_knows_what_they_are(
    gaps: BuiltGaps | None, empty: list[str], withheld: list[str]
) -> None:
    known = KnownColumns([PERSON, OWN, JOB], gaps)
    bits = sum(known.bits[name] for name in empty)
    expected = sum({"person": 0b001, "job": 0b100}[name] for name in withheld)
    assert known.withheld(bits) == expected
    record = {name: 1.0 for name in known.bits if name not in empty}
    assert known.empty_in(record) == bits
    assert known.empty_in({**record, **dict.fromkeys(empty)}) == bits
    assert known.empty_in({**record, **dict.fromkeys(empty, math.nan)}) == bits
    cells = {name: np.array([name in empty, False]) for name in known.bits}
    assert known.withheld_of_rows(cells, 2).tolist() == [expected, 0]
    present = {name: cells[name] for name in known.bits if name not in empty}
    assert known.withheld_of_rows(present, 2).tolist() == [expected, expected]
    assert known.named(bits) == tuple(name for name in known.bits if name in empty)


def test_a_column_that_two_features_read_is_one() -> None:
    known = KnownColumns([PERSON, stored("both", ["job", "age"])], NEVER)
    assert [*known.bits] == ["age", "height", "job"]
    assert known.withheld(known.bits["age"]) == 0b11
    assert known.read_by(0b10) == known.bits["age"] | known.bits["job"]
    assert known.read_by(0) == 0


def test_a_feature_brings_those_that_need_no_other_columns() -> None:
    features = [PERSON, stored("age", ["age"]), OWN, JOB, stored("again", ["age"])]
    assert coming_together(features) == (0b10011, 0b10010, 0b100, 0b1000, 0b10010)
