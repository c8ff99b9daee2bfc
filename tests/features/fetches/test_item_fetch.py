"""Fetches of texts and images: what they may bring, and the features that need it."""

import asyncio
import math
from array import array
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from polydom.features import feature, fetch, step
from polydom.features.errors import (
    BadFeature,
    BadFetch,
    BadItem,
    FeatureFailed,
    FetchFailed,
)
from polydom.features.extract import Extractor
from polydom.features.feature import Step
from polydom.features.fetches.fetch import ItemFetch, fetched_feature
from polydom.features.fetches.load import load_fetches
from polydom.features.fingerprint import fingerprint
from polydom.features.items import Item, text_item
from polydom.features.loading import load_features

FILE = """
from polydom.features import feature, fetch, step
{more}

@fetch(kind="text", width={width}, name="{name}"{terms})
async def embedding(texts, left_s):
    return {body}

@step(needs=[embedding])
def halved(vector):
    return vector / 2

@feature(needs=[halved])
def norm(half):
    return [float((half * half).sum())]

@feature(needs=[embedding, halved])
def ends(vector, half):
    return [vector[0], half[-1]]

@feature(kind="text")
def length(text):
    return [len(text)]
"""
VECTOR = np.array([3, 4], np.float32)


def returning(answers: Any, width: int = 2) -> ItemFetch:
    """A fetch whose function returns the same, whatever it is asked for."""

    @fetch(kind="text", width=width)
    async def embedding(texts: Sequence[str], left_s: float) -> Any:
        return answers

    return embedding


def bring(asked: ItemFetch, *items: Any) -> list[Any]:
    """What a fetch brings for items: vectors as lists, None or failures."""
    brought = asyncio.run(asked.fetch.bring([(item,) for item in items], 1.0))
    for one in brought:
        if isinstance(one, dict):
            vector = one[asked.name]
            assert vector.dtype == np.float32
            assert vector.base is None  # else it would keep those of its call alive
    return [
        one[asked.name].tolist() if isinstance(one, dict) else one for one in brought
    ]


def written(folder: Path, **parts: Any) -> Path:
    given = {"width": 2, "name": "embedding", "terms": "", "more": ""}
    file = folder / "mine.py"
    file.write_text(FILE.format(**{**given, "body": "[[1, 2]]", **parts}))
    return file


def prints(folder: Path, **parts: Any) -> list[str]:
    """Fingerprints of the three features of a file, by which a server knows them."""
    return [fingerprint(one) for one in load_features([], [written(folder, **parts)])]


def extractor(folder: Path) -> Extractor:
    """An extractor of the features norm, ends and length."""
    return Extractor(load_features([], [written(folder)]), [1, 2, 1])


def with_vector(item: Item, vector: Any = VECTOR) -> Item:
    return replace(item, brought={"embedding": vector})


ITEM = text_item("ab")


def test_the_function_takes_the_items_themselves() -> None:
    came: list[Any] = []

    @fetch(kind="text", width=1, name="other", at_most_ms=250, keep_s=60, batch=7)
    async def made(texts: Sequence[str], left_s: float) -> Any:
        came.append((texts, left_s))
        return [[len(text)] for text in texts]

    asked = made.fetch
    assert (made.name, made.kind, made.width) == ("other", "text", 1)
    assert (asked.name, asked.kind, asked.width) == ("other", "text", 1)
    assert (asked.at_most_s, asked.keep_s, asked.batch) == (0.25, 60, 7)
    texts = ["", "a\ud800", "17", "x" * 99_999]
    assert bring(made, *texts) == [[0], [2], [2], [99_999]]
    assert came == [(texts, 1.0)]


def test_images_come_as_bytes() -> None:
    @fetch(kind="image", width=2)
    async def sizes(images: Sequence[bytes], left_s: float) -> Any:
        return [[len(image), image[0]] for image in images]

    assert bring(sizes, b"\x01\x02\x03") == [[3, 1]]


@pytest.mark.parametrize(
    "answers",
    [
        [[3, 4], [0.5, -1]],
        ((3, 4), (0.5, -1)),
        np.array([[3, 4], [0.5, -1]]),
        np.array([[3, 4], [0.5, -1]], np.float32),
        np.array([[3, 4], [0.5, -1]], np.float16).T.copy().T,
        [np.array([3, 4]), np.array([0.5, -1], np.float32)],
        [range(3, 5), array("f", [0.5, -1])],
    ],
    ids=range(7),
)
def test_vectors_may_come_in_many_forms(answers: Any) -> None:
    assert bring(returning(answers), "a", "b") == [[3, 4], [0.5, -1]]


def test_a_vector_is_no_view_of_what_the_call_returned() -> None:
    own = np.ones((2, 2), np.float32)
    brought = bring(returning([own[0], own[1]]), "a", "b")
    own[:] = 9
    assert brought == [[1, 1], [1, 1]]


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (None, "fetch 'embedding' returned NoneType; a list is needed"),
        ("ab", "returned str; a list is needed"),
        ({0: [1, 2]}, "returned dict; a list is needed"),
        ([], "returned 0 answers to 2 items; one for each item is needed, in order"),
        ([[1, 2]] * 3, "returned 3 answers to 2 items"),
        (np.zeros(2), "an array of shape (2,) to 2 items; (2, 2) is needed"),
        (np.zeros((3, 2)), "an array of shape (3, 2) to 2 items; (2, 2) is needed"),
        (np.zeros((2, 1, 2)), "an array of shape (2, 1, 2) to 2 items"),
    ],
)
def test_unusable_answers_are_refused(answers: Any, message: str) -> None:
    with pytest.raises(FetchFailed) as raised:
        bring(returning(answers), "a", "b")
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([1], "returned numbers of shape (1,) for an item; (2,) is needed"),
        ([[1, 2]], "returned numbers of shape (1, 2) for an item"),
        (7, "returned numbers of shape () for an item"),
        ([math.nan, 1], "returned nan as number 0 for an item; finite numbers are nee"),
        ([1, math.inf], "returned inf as number 1 for an item"),
        ([1, -1e39], "returned -inf as number 1 for an item"),
        ([10**400, 1], "returned list for an item; 2 numbers or None are needed"),
        ([None, 1], "returned list for an item"),
        ([1, [2]], "returned list for an item"),
        ([True, False], "returned list for an item"),
        ([Decimal(1), Decimal(2)], "returned list for an item"),
        (["1", "2"], "returned list for an item"),
        ("12", "returned str for an item"),
        (b"12", "returned bytes for an item"),
        ({"a": 1, "b": 2}, "returned dict for an item"),
        (np.array([1, 2j]), "returned ndarray for an item"),
        (np.array(["a", "b"]), "returned ndarray for an item"),
        (np.array([0, 0], "M8[s]"), "returned ndarray for an item"),
    ],
    ids=range(18),
)
def test_an_unusable_vector_fails_for_its_item_alone(answer: Any, message: str) -> None:
    answers = [[3, 4], answer, None]
    first, failure, last = bring(returning(answers), "a", "b", "c")
    assert (first, last) == ([3, 4], None)
    assert isinstance(failure, FetchFailed)
    assert str(failure).startswith("fetch 'embedding' returned ")
    assert message in str(failure)


def test_one_row_of_an_array_may_be_unusable() -> None:
    answers = np.array([[3, 4], [math.nan, 1]])
    first, failure = bring(returning(answers), "a", "b")
    assert first == [3, 4]
    assert isinstance(failure, FetchFailed)


def test_a_function_may_fail_for_an_item_alone() -> None:
    failure = FetchFailed("it is too long")
    answers = [failure, None, VECTOR]
    assert bring(returning(answers), "a", "b", "c") == [failure, None, [3, 4]]


def test_an_error_of_the_function_is_named() -> None:
    @fetch(kind="text", width=2)
    async def embedding(texts: Sequence[str], left_s: float) -> Any:
        raise ConnectionError("no route")

    with pytest.raises(FetchFailed, match="'embedding' raised ConnectionError: no r"):
        bring(embedding, "a")


async def good(items: Any, left_s: float) -> Any: ...


async def single(items: Any) -> Any: ...


def plain(items: Any, left_s: float) -> Any: ...


@pytest.mark.parametrize(
    ("terms", "function", "message"),
    [
        ({}, plain, "fetch 'plain' is no asynchronous function"),
        ({}, single, "'single' will receive 2 arguments"),
        ({"kind": "video"}, good, "has kind='video'; image, text, record is needed"),
        ({"kind": None}, good, "has kind=None"),
        ({"kind": "record"}, good, "has a width; that is for texts and images"),
        ({"width": 0}, good, "width is 0; a whole number from 1 to 4096 is needed"),
        ({"width": 4097}, good, "width is 4097"),
        ({"width": 2.0}, good, "width is 2.0"),
        ({"width": True}, good, "width is True"),
        ({"width": "2"}, good, "width is '2'"),
        ({"key": ["id"]}, good, "is for text items, so it has no key and no columns"),
        ({"columns": ["x"]}, good, "is for text items, so it has no key"),
        ({"batch": 0}, good, "batch is 0; 1 or more"),
    ],
)
def test_wrong_terms_are_refused(
    terms: dict[str, Any], function: Any, message: str
) -> None:
    decorate: Any = fetch
    with pytest.raises(BadFetch) as raised:
        decorate(**{"kind": "text", "width": 2, **terms})(function)
    assert message in str(raised.value)


def test_a_fetch_of_records_has_no_width() -> None:
    decorate: Any = fetch
    with pytest.raises(BadFetch, match="'good' has a width; that is for texts and im"):
        decorate(key=["id"], columns=["x"], width=2)(good)


def test_a_fetch_is_bound_to_its_own_kind_and_width_only() -> None:
    asked = returning([]).fetch
    assert asked.bound_to_items("text") is asked
    assert asked.bound_to_items("text", 2) is asked
    with pytest.raises(BadFetch, match="brings 2 numbers; 3 are needed"):
        asked.bound_to_items("text", 3)
    with pytest.raises(BadFetch, match="is for text items; one for image items is"):
        asked.bound_to_items("image", 2)
    with pytest.raises(BadFetch, match="is for text items; one for records is needed"):
        asked.bound_to(["id"], ["x"])
    records = fetch(key=["id"], columns=["x"])(good)
    with pytest.raises(BadFetch, match="is for record items; one for text items is"):
        records.bound_to_items("text", 2)


def test_fetches_come_from_python_and_toml_files(tmp_path: Path) -> None:
    toml = tmp_path / "more.toml"
    toml.write_text("[remote]\nembeddings = 'http://h/'\nwidth = 3\nkind = 'image'\n")
    found = load_fetches([written(tmp_path), toml])
    assert [(name, one.kind, one.width) for name, one in found.items()] == [
        ("embedding", "text", 2),
        ("remote", "image", 3),
    ]


def test_fingerprints_do_not_depend_on_how_a_vector_is_fetched(tmp_path: Path) -> None:
    first = prints(tmp_path)
    client = "import threading\nLOCK = threading.Lock()\nURL = 'http://h/'\n"
    assert prints(tmp_path, body="[URL, LOCK]", more=client) == first
    assert prints(tmp_path, terms=", at_most_ms=50, keep_s=9, batch=3") == first


@pytest.mark.parametrize("part", [{"width": 3}, {"name": "other"}])
def test_fingerprints_depend_on_what_is_fetched(
    tmp_path: Path, part: dict[str, Any]
) -> None:
    first, other = prints(tmp_path), prints(tmp_path, **part)
    assert [one == two for one, two in zip(first, other, strict=True)] == [
        False,
        False,
        True,  # it needs no vector
    ]


def test_fingerprints_of_the_vector_itself_depend_on_name_kind_and_width() -> None:
    made = [
        fetched_feature("embedding", "text", 2),
        fetched_feature("embedding", "text", 3),
        fetched_feature("embedding", "image", 2),
        fetched_feature("other", "text", 2),
    ]
    assert len({fingerprint(one) for one in made}) == 4


def test_features_receive_the_vector_that_came(tmp_path: Path) -> None:
    own = extractor(tmp_path)
    assert [one.name for one in own.fetched] == ["embedding"]
    assert [one.name for one in own.steps] == ["embedding", "halved"]
    assert own.needs == ((0, 1), (0, 1), ())
    assert own.extract(with_vector(ITEM)).tolist() == [6.25, 3, 2, 2]
    own.check(with_vector(ITEM))


def test_the_vector_itself_may_be_a_feature() -> None:
    own = Extractor([fetched_feature("embedding", "text", 2)], [2])
    assert own.extract(with_vector(ITEM)).tolist() == [3, 4]


@pytest.mark.parametrize("brought", [None, {}, {"other": VECTOR}, {"embedding": None}])
def test_features_fail_without_their_vector(tmp_path: Path, brought: Any) -> None:
    own, item = extractor(tmp_path), replace(ITEM, brought=brought)
    for position in (0, 1):
        with pytest.raises(BadItem, match="a fetch has brought no vector for it"):
            own.extract(item, features=[position])
    assert own.extract(item, features=[2]).tolist() == [0, 0, 0, 2]


def test_a_vector_may_come_after_other_features_were_computed(tmp_path: Path) -> None:
    own = extractor(tmp_path)
    row = np.zeros(own.width, np.float32)
    extraction = own.begin(ITEM, row)
    extraction.compute(2)
    with pytest.raises(BadItem):
        extraction.compute(0)
    assert extraction.run_steps() == 0b00
    extraction = extraction.with_more(with_vector(ITEM))
    extraction.compute(1)
    assert extraction.run_steps() == 0b11
    extraction.compute(0)
    assert row.tolist() == [6.25, 3, 2, 2]


def test_vectors_that_came_before_are_kept() -> None:
    @fetch(kind="text", width=1)
    async def second(texts: Sequence[str], left_s: float) -> Any: ...

    @feature(needs=[second, returning([])])
    def joined(one: Any, other: Any) -> list[float]:
        return [*one, *other]

    own = Extractor([joined], [3])
    first = replace(ITEM, brought={"second": np.array([9], np.float32)})
    row = np.zeros(3, np.float32)
    extraction = own.begin(first, row)
    with pytest.raises(BadItem):
        extraction.compute(0)
    assert extraction.run_steps() == 0b01
    both = {**(first.brought or {}), "embedding": VECTOR}
    extraction.with_more(replace(ITEM, brought=both)).compute(0)
    assert row.tolist() == [9, 3, 4]


def test_zeros_stand_for_vectors_that_did_not_come(tmp_path: Path) -> None:
    own = extractor(tmp_path)
    assert own.extract(own.filled(ITEM)).tolist() == [0, 0, 0, 2]
    assert own.extract(own.filled(with_vector(ITEM))).tolist() == [6.25, 3, 2, 2]
    assert Extractor.probe(own.features, own.filled(ITEM)).widths == (1, 2, 1)
    assert own.part([2]).filled(ITEM) is ITEM


def test_a_feature_cannot_change_what_was_fetched() -> None:
    embedding = returning([])

    @feature(needs=[embedding])
    def spoils(vector: Any) -> list[float]:
        vector[0] += 1
        return [vector[0]]

    kept, own = VECTOR.copy(), Extractor([spoils], [1])
    for _ in range(2):
        assert own.extract(with_vector(ITEM, kept)).tolist() == [4]
    assert kept.tolist() == [3, 4]
    other = feature(lambda vector: vector, name="other", needs=[embedding])
    with pytest.raises(BadFeature, match="some feature changes what its steps made"):
        Extractor([spoils, other], [1, 2]).check(with_vector(ITEM, kept))


def test_a_feature_may_fail_on_a_vector() -> None:
    embedding = returning([])

    @feature(needs=[embedding], fails="without")
    def fragile(vector: Any) -> Any:
        raise ValueError("no")

    whole = feature(lambda vector: vector, name="whole", needs=[embedding])
    own = Extractor([fragile, whole], [1, 2])
    row = own.extract(with_vector(ITEM))
    assert math.isnan(row[0])
    assert row[1:].tolist() == [3, 4]
    failure = own.begin(with_vector(ITEM), row).attempt(0)
    assert isinstance(failure, FeatureFailed)
    assert own.withheld_by(failure) == 0b01


def test_steps_of_other_kinds_are_not_mixed() -> None:
    @step(kind="image")
    def pixels(image: bytes) -> bytes:
        return image

    needs: list[Step] = [pixels, returning([])]
    with pytest.raises(BadFeature, match="mixes kinds of items: image, text"):
        feature(lambda one, other: [1], name="mixed", needs=needs)
