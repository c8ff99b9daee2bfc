"""Partitions of items answered, as Arrow, pandas or plain lists have them."""

import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polydom.features.errors import BadIndexFile, BadInput
from polydom.server import BatchPlan, Scorer
from tests.support.indexes.served import FEATURES_FILE, HAM, SPAM, save, save_index
from tests.support.indexes.three_kinds import picture, save_three

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")

OWN = [FEATURES_FILE]
# What any text costs without features, with its length, and with all.
TEXTS = [HAM, SPAM, "lunch?", "a\x00", None, *(f"call {k} me" for k in range(60))]


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return save_index(tmp_path)


def plan_of(index: Path, mean_s: float = 0.004, **terms: Any) -> BatchPlan:
    sizes = [float(len(text or "?")) for text in TEXTS]
    return BatchPlan.of(index, sizes, total_cost_s=mean_s * len(sizes), **terms)


def table_of_texts() -> Any:
    ids = pa.array(range(100, 100 + len(TEXTS)), pa.int16())
    days = pa.array([20_000] * len(TEXTS), pa.int32()).cast(pa.date32())
    return pa.table({"day": days, "text": TEXTS, "id": ids, "label": TEXTS})


def test_every_way_in_gives_the_same_rows_in_any_partition(index: Path) -> None:
    table = table_of_texts()
    scorer = Scorer(index, plan=plan_of(index), keep=["id", "day"], features=OWN)
    whole = scorer.table(table)
    assert whole.schema == scorer.schema(table.schema)
    assert whole["id"].type == pa.int16()
    assert whole["day"] == table["day"]
    rows = whole.drop(["cost"]).to_pylist()
    assert [row["id"] for row in rows] == table["id"].to_pylist()
    assert len({tuple(row["features"] or ()) for row in rows}) == 3
    again = pickle.loads(pickle.dumps(scorer))
    for size in (1, 7, 64):
        parts = list(again.batches(iter(table.to_batches(size))))
        assert pa.Table.from_batches(parts).drop(["cost"]).to_pylist() == rows
    reverse = scorer.table(table.take(list(range(len(TEXTS)))[::-1]))
    assert reverse.drop(["cost"]).to_pylist() == rows[::-1]
    frame = scorer.frame(table.to_pandas())
    assert frame["label"].tolist()[:3] == [row["label"] for row in rows[:3]]
    assert frame["id"].dtype == np.int16
    listed = scorer(text for text in TEXTS if text is not None)
    wanted = [row["features"] for row in rows if row["id"] != 104]
    assert [row["features"] and list(row["features"]) for row in listed] == wanted


def test_a_row_says_what_it_cost_and_by_which_price_and_index(index: Path) -> None:
    plan = plan_of(index)
    scorer = Scorer(index, plan=plan, features=OWN)
    rows = scorer.table(table_of_texts()).to_pylist()
    assert {row["price"] for row in rows} == {plan.price}
    assert {row["index_version"] for row in rows} == {plan.index_version}
    damaged, absent, sound = rows[3], rows[4], rows[5]
    assert "'words'" in damaged["error"]
    assert absent["error"] == "the row holds no 'text'"
    assert (absent["label"], absent["features"], absent["cost"]) == (None,) * 3
    assert sound["error"] is None
    assert 0 < sound["cost"] < 1
    assert sum(score for _, score in sound["scores"] or [("", 1)]) == pytest.approx(1)


def test_no_rows_give_no_rows_of_the_same_kind(index: Path) -> None:
    table = table_of_texts()
    scorer = Scorer(index, plan=plan_of(index), keep=["id"], features=OWN)
    empty = scorer.table(table.slice(0, 0))
    assert (empty.num_rows, empty.schema) == (0, scorer.schema(table.schema))
    (batch,) = scorer.batches([table.to_batches()[0].slice(0, 0)])
    assert (batch.num_rows, batch.schema) == (0, empty.schema)
    assert list(scorer.batches([])) == []
    frame = table.to_pandas()
    meta = scorer.meta(frame)
    assert len(meta) == 0
    assert meta.dtypes.to_dict() == scorer.frame(frame).dtypes.to_dict()
    assert scorer([]) == []


def test_frames_keep_their_index(index: Path) -> None:
    frame = pd.DataFrame({"text": [HAM, SPAM], "id": ["a", None]}, index=[7, 3])
    answered = Scorer(index, plan=plan_of(index), keep=["id"], features=OWN).frame(
        frame
    )
    assert answered.index.tolist() == [7, 3]
    assert answered["id"].equals(frame["id"])
    assert answered.columns.tolist()[:2] == ["id", "label"]


def test_items_of_every_kind_are_read(tmp_path: Path) -> None:
    paths = save_three(tmp_path)
    images = pa.table(
        {"photo": [{"bytes": picture(20), "path": "x"}, {"bytes": b"", "path": "y"}]}
    )
    rows = Scorer(paths["images"], item_budget_s=1, column="photo").table(images)
    assert rows["label"].to_pylist() == ["dark", None]
    usual = pa.table({"image": pa.array([picture(220)], pa.large_binary())})
    assert Scorer(paths["images"], item_budget_s=1).table(usual)[
        "label"
    ].to_pylist() == ["bright"]
    people = {"age": [20.5, 55.0, None], "job": ["baker", "clerk", "king"]}
    scorer = Scorer(paths["records"], item_budget_s=1, keep=["who"])
    found = scorer.table(pa.table(people | {"who": [1, 2, 3]}))
    assert found["label"].to_pylist()[:2] == ["no", "yes"]
    assert found["unknown"].to_pylist() == [None, None, ["job"]]
    nested = pa.table({"of": pa.table(people).to_struct_array()})
    scorer = Scorer(paths["records"], item_budget_s=1, column="of")
    assert scorer.table(nested)["label"].to_pylist()[:2] == ["no", "yes"]


def test_a_budget_for_each_item_is_given_out_batch_by_batch(tmp_path: Path) -> None:
    index = save_index(tmp_path, unit="usd")
    table = pa.table({"text": [f"{k:04d}" for k in range(200)]})
    scorer = Scorer(index, item_budget=0.0007, features=OWN)
    for size in (50, 200):
        for batch in scorer.batches(table.to_batches(size)):
            costs = batch.column("cost").to_pylist()
            assert 0.9 < sum(costs) / (0.0007 * size) <= 1
    assert batch.column("price").to_pylist() == [None] * 200


def test_exact_plans_give_scores(index: Path) -> None:
    plan = plan_of(index, exact=True)
    Scorer(index, plan=plan, exact=True, features=OWN)
    with pytest.raises(BadInput, match="one with exact=True"):
        Scorer(index, plan=plan_of(index), exact=True, features=OWN)


def test_an_index_that_was_replaced_in_place_is_refused_by_name(
    index: Path, tmp_path: Path
) -> None:
    scorer = Scorer(index, item_budget_s=0.1, features=OWN)
    assert scorer([HAM])[0]["label"] == "ham"
    kept = shutil.copy2(index, tmp_path / "kept.pdx")
    save(index, best=0.99)
    with pytest.raises(BadIndexFile, match=r"tiny\.pdx on .* is index \w{12}, and"):
        scorer([HAM])
    shutil.copy2(kept, index)
    assert scorer([HAM])[0]["label"] == "ham"
    index.unlink()
    with pytest.raises(BadIndexFile, match=r"tiny\.pdx: No such file .* on "):
        scorer([HAM])


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({}, "give item_budget_s"),
        ({"item_budget": 1.0}, "give item_budget_s"),
        ({"item_budget_s": -1.0}, "item_budget_s is -1.0"),
        ({"item_budget_s": 1.0, "keep": ["label"]}, "column 'label' to keep is one"),
    ],
)
def test_terms_that_cannot_be_are_refused_at_once(
    index: Path, terms: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        Scorer(index, features=OWN, **terms)


def test_a_plan_goes_with_its_index_and_with_no_budget(
    index: Path, tmp_path: Path
) -> None:
    plan = plan_of(index)
    with pytest.raises(BadInput, match="exclude each other"):
        Scorer(index, plan=plan, item_budget_s=1.0, features=OWN)
    with pytest.raises(BadInput, match="the plan is for index"):
        Scorer(save(tmp_path / "other.pdx", best=0.99), plan=plan, features=OWN)


def test_columns_that_are_not_there_are_named(index: Path, tmp_path: Path) -> None:
    scorer = Scorer(index, item_budget_s=1.0, keep=["id"], features=OWN)
    texts = pa.table({"texts": [HAM], "id": [1]})
    with pytest.raises(BadInput, match="no column 'text'; did you mean 'texts'"):
        scorer.table(texts)
    with pytest.raises(BadInput, match="no column 'id'"):
        scorer.frame(pd.DataFrame({"text": [HAM]}))
    with pytest.raises(BadInput, match="no column 'id'"):
        scorer.schema()
    twice = pa.Table.from_arrays([pa.array([HAM])] * 2, names=["text", "text"])
    with pytest.raises(BadInput, match="2 columns are called 'text'"):
        Scorer(index, item_budget_s=1.0, features=OWN).table(twice)
    records = save_three(tmp_path)["records"]
    with pytest.raises(BadInput, match="none of the columns texts, id; it knows age,"):
        Scorer(records, item_budget_s=1.0).table(texts)
    mixed = pd.DataFrame({"age": [1, "x", b"y"]})
    with pytest.raises(BadInput, match="no table can be made"):
        Scorer(records, item_budget_s=1.0).frame(mixed)


def test_spark_is_told_the_schema_in_words(index: Path) -> None:
    scorer = Scorer(index, item_budget_s=1.0, features=OWN)
    assert scorer.ddl().startswith("`label` STRING, `scores` MAP<STRING, DOUBLE>, ")
    assert scorer.ddl().endswith("`price` DOUBLE, `index_version` STRING")


@pytest.mark.parametrize("count", [1, 10_000])
def test_a_scorer_is_sent_in_a_few_hundred_bytes(index: Path, count: int) -> None:
    plan = BatchPlan.of(index, [9.0] * count, total_cost_s=1.0)
    assert len(pickle.dumps(Scorer(index, plan=plan, features=OWN))) < 1500
