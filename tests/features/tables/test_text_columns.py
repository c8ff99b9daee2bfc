"""Features of texts on columns of records: those of the strings themselves."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydom.features.errors import BadFeature, BadItem
from polydom.features.extract import Extractor
from polydom.features.feature import Feature, feature
from polydom.features.fingerprint import fingerprint
from polydom.features.items import record_item, text_item
from polydom.features.loading import load_features
from polydom.features.ready_made.learned_text import recipes_by_name
from polydom.features.ready_made.text import FEATURES
from polydom.features.tables.column_features import columns
from polydom.features.tables.records import trim
from polydom.features.tables.text_columns import TextOf, feature_on
from tests.support.indexes.learned import learn

TEXTS = ["win a free prize", "see you at home", "a prize for you at home", "free you"]
LEARNED = [
    recipes_by_name()[name].feature(learn(name, TEXTS, [0, 1, 1, 0]))
    for name in recipes_by_name()
]
OF_TEXTS = [*FEATURES, *LEARNED]
MOST = 300
NOTE, SUBJECT = TextOf("note", MOST), TextOf("subject", MOST)
ANY_TEXT = st.text(st.characters(exclude_categories=[]), max_size=200)
PLAIN = Extractor.probe(OF_TEXTS, text_item("Some words."))
BOTH = Extractor.probe(
    [feature_on(text, one) for text in (NOTE, SUBJECT) for one in OF_TEXTS],
    record_item({"note": "Some words."}),
)


def of_record(record: dict[str, Any]) -> NDArray[np.float32]:
    """Features of `note`, then of `subject`."""
    return BOTH.extract(record_item(record))


def of_strings(*texts: str) -> NDArray[np.float32]:
    return np.concatenate([PLAIN.extract(text_item(text)) for text in texts])


@given(ANY_TEXT, ANY_TEXT)
def test_features_of_a_column_are_those_of_its_strings(note: str, subject: str) -> None:
    found = of_record({"note": note, "subject": subject, "age": 3})
    np.testing.assert_array_equal(found, of_strings(trim(note), trim(subject)))


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"note": None, "subject": math.nan},
        {"note": "", "subject": " \n\t "},
        {"other": "some words"},
    ],
)
def test_a_cell_that_holds_nothing_is_the_empty_text(record: dict[str, Any]) -> None:
    np.testing.assert_array_equal(of_record(record), of_strings("", ""))


def test_longer_texts_than_any_of_the_build_are_read_so_far() -> None:
    text = "word " * 100_000
    found = of_record({"note": text, "subject": "  x"})
    np.testing.assert_array_equal(found, of_strings(text[:MOST], "x"))


@pytest.mark.parametrize(
    ("value", "came"),
    [
        (5, "a number"),
        (2.5, "a number"),
        (True, "a boolean"),
        (1 << 40_000, "a number"),
    ],
    ids=["int", "float", "bool", "huge"],
)
def test_a_number_is_refused_and_the_column_named(value: Any, came: str) -> None:
    with pytest.raises(BadItem, match=f"column 'note' holds {came}; a text is needed"):
        of_record({"note": value, "subject": "x"})


def test_steps_are_shared_within_a_column_and_apart_between_columns() -> None:
    assert len(BOTH.steps) == 2 * (len(PLAIN.steps) + 1)
    again = Extractor.probe(
        [feature_on(TextOf("note", MOST), one) for one in OF_TEXTS],
        record_item({}),
    )
    # made apart, as those are that are learned later
    joined = Extractor([*BOTH.features, *_renamed(again)], BOTH.widths + again.widths)
    assert joined.steps == BOTH.steps
    assert {step.kind for step in BOTH.steps} == {"record"}
    assert {step.name for step in BOTH.steps} >= {"text of note", "subject: words"}


def _renamed(extractor: Extractor) -> list[Feature]:
    return [
        Feature(f"{one.name} again", one.kind, one.needs, one.function)
        for one in extractor.features
    ]


def test_each_step_runs_once_for_a_record() -> None:
    calls: list[str] = []

    def counted(text: str) -> list[int]:
        calls.append(text)
        return [len(text)]

    features = [feature(counted, kind="text", name=name) for name in ("a", "b")]
    made = [feature_on(NOTE, one) for one in features]
    extractor = Extractor(made, [1, 1])
    assert len(extractor.steps) == 1
    assert extractor.extract(record_item({"note": "four"})).tolist() == [4, 4]
    assert calls == ["four", "four"]


def test_fingerprints_tell_column_and_length_apart_and_are_steady() -> None:
    (words,) = load_features(["hashed_words"])
    prints = [
        fingerprint(feature_on(text, words))
        for text in (NOTE, SUBJECT, TextOf("note", MOST + 1), TextOf("note", MOST))
    ]
    assert len({*prints, fingerprint(words)}) == 4
    assert prints[0] == prints[3]


def test_they_are_used_beside_columns_but_not_beside_features_of_texts() -> None:
    age = columns("age", ["age"])
    (length,) = load_features(["text_length"])
    beside = Extractor.probe([age, feature_on(NOTE, length)], record_item({"age": 1}))
    assert not beside.whole
    found = beside.extract(record_item({"age": 7, "note": "one two"}))
    assert found[0] == 7
    lengths = PLAIN.columns([one.name for one in OF_TEXTS].index("text_length"))
    np.testing.assert_array_equal(found[1:], of_strings("one two")[lengths])
    with pytest.raises(BadFeature, match="different kinds cannot be used together"):
        Extractor([age, length], [1, 9])


def test_a_feature_of_ones_own_is_put_on_a_column(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from polydom.features import feature, step\n\n"
        "@step(kind='text')\ndef halves(text):\n    return text.split('|')\n\n"
        "@feature(needs=[halves])\ndef parts(halves):\n    return [len(halves)]\n"
    )
    (own,) = load_features([], [file])
    made = feature_on(NOTE, own)
    assert (made.name, made.kind) == ("note: parts", "record")
    assert Extractor([made], [1]).extract(record_item({"note": "a|b|c"})) == [3]
