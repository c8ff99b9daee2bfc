"""Records that do not suit an index are refused with what would."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier
from starlette.testclient import TestClient

from polydom.features.columns import columns
from polydom.features.costs.curve import CostTable
from polydom.features.errors import BadItem
from polydom.features.fingerprint import fingerprint
from polydom.indexer.index.index import Index
from polydom.indexer.index.package import Package
from polydom.indexer.index.stored_features import StoredColumns, StoredFeature
from polydom.models.importers.compile import compile_model
from polydom.models.scoring.prior import Prior
from polydom.server.__main__ import main
from polydom.server.app import create_app
from polydom.server.runtime.known_columns import SHOWN, KnownColumns

GROUPS = {"person": ["age", "job"], "money": ["income", "age"]}


def stored(name: str, names: list[str]) -> StoredFeature:
    words = {"job": ["baker", "clerk"]}
    made_of = fingerprint(columns(name, names, vocabularies=words))
    read = StoredColumns(names, words)
    return StoredFeature(name, len(names), made_of, True, read)


def save_records(folder: Path) -> Path:
    """An index of records that costs nothing: the young are refused."""
    features = tuple(stored(name, names) for name, names in GROUPS.items())
    tree = DecisionTreeClassifier().fit([[20.0], [50.0]], [0, 1])
    package = Package(
        kind="record",
        labels=("no", "yes"),
        features=features,
        costs=CostTable(np.zeros((2, 1)), np.zeros((0, 1)), [(), ()], np.zeros(1)),
        masks=np.array([0, 1], np.uint64),
        orders=((), (0,)),
        fallbacks=((0,), (0, 1)),
        models=(Prior.fit(np.array([0, 0, 1])), compile_model(tree, np.array([0]))),
        model_s=np.zeros(2),
        overhead_s=0.0,
        meta={"unit": "s", "samples": []},
    )
    path = folder / "records.pdx"
    index = Index.from_candidates([[0.0], [1e-6]], [0.5, 0.9], (1, 1), package)
    index.save(path)
    return path


REFUSED = [
    ({"agee": 31}, "the index knows no column 'agee'; did you mean 'age'?"),
    ({"age": 31, "xyz": 1}, "'xyz'; it knows age, job, income"),
    ({}, "the record has no columns; the index knows age, job, income"),
    ({"age": "old"}, "column 'age' holds 'old'; a number is needed"),
]


def test_app_refuses_records_that_do_not_suit_the_index(tmp_path: Path) -> None:
    with TestClient(create_app(save_records(tmp_path))) as client:
        while client.get("/readyz").status_code != 200:
            pass
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
