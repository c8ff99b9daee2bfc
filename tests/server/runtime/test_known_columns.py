"""Records that do not suit an index are refused with what would."""

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from polydom.features.errors import BadItem
from polydom.indexer.index.stored_features import StoredFeature
from polydom.server.__main__ import main
from polydom.server.app import create_app
from polydom.server.runtime.known_columns import SHOWN, KnownColumns
from tests.support.free_records import save_records, stored
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
