"""Tensors become the items that they hold, and answers become tensors."""

import base64
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from polydom.features.errors import BadInput, BadItem
from polydom.indexer.index.index import Index
from polydom.indexer.index.package import Package
from polydom.server.oip.metadata import CONFIG_TYPES
from polydom.server.oip.tensor_items import MAX_ITEMS, Items, Requested
from polydom.server.oip.tensors import BYTES, Tensor
from polydom.server.schema.wire import Answer
from tests.support.indexes import fetched
from tests.support.indexes.three_kinds import picture, save_three

Indexes = dict[str, Items]


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Indexes:
    paths = save_three(tmp_path_factory.mktemp("indexes"))
    return {name: Items(package_of(path)) for name, path in paths.items()}


def package_of(path: Path) -> Package:
    package = Index.load(path).package
    assert package is not None
    return package


def tensor(
    name: str, datatype: str, values: Sequence[Any], shape: tuple[int, ...] = ()
) -> Tensor:
    return Tensor(name, datatype, shape or (len(values),), values)


def test_metadata_name_one_input_per_column_or_the_kind(kinds: Indexes) -> None:
    said = {
        kind: [(facts.name, facts.datatype, facts.shape) for facts in items.inputs]
        for kind, items in kinds.items()
    }
    assert said == {
        "texts": [("text", BYTES, [-1])],
        "images": [("image", BYTES, [-1])],
        "records": [
            ("age", "FP64", [-1]),
            ("job", BYTES, [-1]),
            ("income", "FP64", [-1]),
        ],
    }
    assert [facts.name for facts in kinds["images"].outputs] == [
        "label",
        "scores",
        "expected_accuracy",
        "early",
        "expected_quality",
        "features",
        "reason",
        "budget_met",
    ]


def test_the_key_of_a_fetch_has_the_datatype_of_the_table() -> None:
    package = fetched.make_index().package
    assert package is not None
    for kinds, datatype in (
        ([], BYTES),  # an index that does not know it
        (["text"], BYTES),
        (["whole number"], "INT64"),
        (["number"], "FP64"),
        (["boolean"], "BOOL"),
    ):
        fetches = tuple(replace(one, key_kinds=kinds) for one in package.fetches)
        items = Items(dataclasses.replace(package, fetches=fetches))
        said = {facts.name: facts.datatype for facts in items.inputs}
        assert said["customer_id"] == datatype
        assert (said["job"], said["n_orders"]) == (BYTES, "FP64")
        assert datatype in CONFIG_TYPES
        for value in ("c17", 17):
            (ask,) = items.read([tensor("customer_id", datatype, [value])])
            assert ask.record == {"customer_id": value}


def test_texts_come_as_bytes_or_strings_in_one_axis_or_two(kinds: Indexes) -> None:
    read = kinds["texts"].read
    assert [a.text for a in read([tensor("text", BYTES, ["a", b"\xc3\xa4"])])] == [
        "a",
        "ä",
    ]
    assert len(read([tensor("text", BYTES, ["a", "b"], (2, 1))])) == 2
    for values, match in (
        ([b"\xff"], r"text 0 is not UTF-8 \(byte 0\)"),
        (["a", None], "text 1 is null"),
    ):
        with pytest.raises(BadItem, match=match):
            read([tensor("text", BYTES, values)])


def test_images_come_as_bytes_or_in_base64(kinds: Indexes) -> None:
    png = picture(20)
    sent = tensor("image", BYTES, [png, base64.b64encode(png).decode()])
    asks = kinds["images"].read([sent])
    assert [ask.image_base64 for ask in asks] == [png, png]
    for values, match in ((["*"], "not base64"), ([None], "image 0 is null")):
        with pytest.raises(BadItem, match=match):
            kinds["images"].read([tensor("image", BYTES, values)])


def test_records_come_by_column_by_row_or_as_json(kinds: Indexes) -> None:
    read = kinds["records"].read
    by_column = read(
        [tensor("age", "INT64", [31, 50]), tensor("job", BYTES, [b"clerk", None])]
    )
    assert [a.record for a in by_column] == [
        {"age": 31, "job": "clerk"},
        {"age": 50, "job": None},
    ]
    by_row = read([tensor("record", "FP32", [31.0, 0.0, 5.0], (1, 3))])
    assert [a.record for a in by_row] == [{"age": 31.0, "job": 0.0, "income": 5.0}]
    as_json = read([tensor("record", BYTES, ['{"age": 31}', b'{"job": "baker"}'])])
    assert [a.record for a in as_json] == [{"age": 31}, {"job": "baker"}]


@pytest.mark.parametrize(
    ("kind", "inputs", "match"),
    [
        ("texts", [], "one input 'text' of BYTES is needed; none came"),
        ("texts", [tensor("txt", BYTES, ["a"])], "'txt' of BYTES came"),
        ("texts", [tensor("text", "INT8", [1])], "'text' of INT8 came"),
        ("texts", [tensor("text", BYTES, [])], "1 to 1,024 items .* 0 came"),
        ("texts", [tensor("text", BYTES, ["a"] * 4, (2, 2))], r"\[-1, 1\] is needed"),
        ("texts", [tensor("text", BYTES, ["a"] * (MAX_ITEMS + 1))], "1,025 came"),
        ("texts", [tensor("text", BYTES, ["a"])] * 2, "given twice"),
        ("records", [], "there are no inputs"),
        (
            "records",
            [tensor("age", "FP32", [1.0]), tensor("income", "FP32", [1.0, 2.0])],
            "different numbers of items: {'age': 1, 'income': 2}",
        ),
        ("records", [tensor("record", "FP32", [1.0, 2.0], (1, 2))], r"\[-1, 3\]"),
        ("records", [tensor("record", "FP32", [1.0, 2.0, 3.0])], r"\[-1, 3\]"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(
    kinds: Indexes, kind: str, inputs: list[Tensor], match: str
) -> None:
    with pytest.raises(BadInput, match=match):
        kinds[kind].read(inputs)


@pytest.mark.parametrize("element", ["", b"\xff", None, "{" * 9])
def test_json_that_is_no_record_is_refused(
    kinds: Indexes, element: str | bytes | None
) -> None:
    with pytest.raises(BadItem, match="record 0 is no JSON object of columns"):
        kinds["records"].read([tensor("record", BYTES, [element])])


def test_bytes_in_a_column_must_be_utf8(kinds: Indexes) -> None:
    with pytest.raises(BadItem, match="column 'job' holds bytes that are no UTF-8"):
        kinds["records"].read([tensor("job", BYTES, [b"\xff"])])


def answer(**changed: Any) -> Answer:
    facts: dict[str, Any] = {
        "label": "ham",
        "scores": {"ham": 0.75},
        "features": ("length", "words"),
        "expected_quality": 0.5,
        "expected_accuracy": 0.0,
        "reason": "waited",
        "budget_met": True,
        "actual_us": 1.0,
        "queue_us": 1.0,
        "elapsed_us": 1.0,
        "index_version": "",
    }
    return Answer(**{**facts, **changed})


def test_outputs_are_label_and_scores_unless_others_are_asked_for(
    kinds: Indexes,
) -> None:
    answers = [answer(), answer(label="spam", scores={"ham": 0.4, "spam": 0.6})]
    assert kinds["texts"].write(answers, True, []) == [
        Tensor("label", BYTES, (2,), ["ham", "spam"]),
        Tensor("scores", "FP64", (2, 2), [0.75, 0.0, 0.4, 0.6]),
    ]
    names = (
        "features",
        "reason",
        "expected_accuracy",
        "early",
        "expected_quality",
        "budget_met",
    )
    wanted = [Requested(name) for name in names]
    assert kinds["texts"].write([answer()], False, wanted) == [
        Tensor("features", BYTES, (1,), ["length,words"]),
        Tensor("reason", BYTES, (1,), ["waited"]),
        Tensor("expected_accuracy", "FP64", (1,), [0.0]),
        Tensor("early", "BOOL", (1,), [False]),
        Tensor("expected_quality", "FP64", (1,), [0.5]),
        Tensor("budget_met", "BOOL", (1,), [False]),
    ]
    (best,) = kinds["texts"].write([answer(reason=None)], True, [Requested("reason")])
    assert best.values == [""]


@pytest.mark.parametrize(
    ("names", "needed"),
    [
        ([], True),
        (["scores"], True),
        (["label", "scores"], True),
        (["label"], False),
        (["label", "reason", "expected_accuracy"], False),
    ],
)
def test_scores_are_needed_where_they_are_an_output(
    kinds: Indexes, names: list[str], needed: bool
) -> None:
    items = kinds["texts"]
    assert items.asks_scores([Requested(name) for name in names]) is needed


def test_scores_as_classification_are_the_best_first(kinds: Indexes) -> None:
    answers = [answer(scores={"ham": 0.4, "spam": 0.6})]
    for classes, values in (
        (1, ["0.600000:1:spam"]),
        (9, ["0.600000:1:spam", "0.400000:0:ham"]),
    ):
        wanted = [Requested("scores", classes)]
        kinds["texts"].check(wanted)
        (scores,) = kinds["texts"].write(answers, True, wanted)
        assert scores == Tensor("scores", BYTES, (1, len(values)), values)


@pytest.mark.parametrize(
    ("outputs", "match"),
    [
        ([Requested("labels")], "no output 'labels'; there are label, scores"),
        ([Requested("label"), Requested("label")], "asked for twice"),
        ([Requested("label", 1)], "only 'scores'"),
    ],
)
def test_outputs_that_are_not_there_are_refused(
    kinds: Indexes, outputs: list[Requested], match: str
) -> None:
    with pytest.raises(BadInput, match=match):
        kinds["texts"].check(outputs)


@pytest.mark.parametrize("name", ["input-0", "input_1", "INPUT0", "input", "inputs"])
def test_an_only_input_without_a_name_of_its_own_is_the_items(
    kinds: Indexes, name: str
) -> None:
    """As clients name one of which nobody told them the name."""
    (ask,) = kinds["texts"].read([tensor(name, BYTES, ["a"])])
    assert ask.text == "a"
    (ask,) = kinds["images"].read([tensor(name, BYTES, [picture(20)])])
    assert ask.image_base64 == picture(20)
    (ask,) = kinds["records"].read([tensor(name, BYTES, ['{"age": 5}'])])
    assert ask.record == {"age": 5}
    (ask,) = kinds["records"].read([tensor(name, "FP64", [5.0, 1.0, 2.0], (1, 3))])
    assert ask.record == {"age": 5.0, "job": 1.0, "income": 2.0}
    for two in (["input-0", "input-1"], ["input-0", "age"]):
        (ask,) = kinds["records"].read([tensor(one, "FP64", [5.0]) for one in two])
        assert ask.record == dict.fromkeys(two, 5.0)  # columns, which others check
    for other in ("age", "my input", "output-0", "input-x"):
        with pytest.raises(BadInput, match="one input 'text' of BYTES is needed"):
            kinds["texts"].read([tensor(other, BYTES, ["a"])])
