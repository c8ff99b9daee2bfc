"""A reload is refused if, and only if, it would break callers; a sentence names why."""

from dataclasses import replace
from itertools import permutations
from pathlib import Path

import msgspec

from polydom.features.errors import BadItem
from polydom.indexer.index.fetches.stored_fetches import StoredFetch
from polydom.indexer.index.index import Index
from polydom.indexer.index.package import Package
from polydom.indexer.index.stored_features import StoredColumns, StoredText
from polydom.server.runtime.contract import contract_of, differences
from polydom.server.runtime.known_columns import KnownColumns
from tests.support.indexes import records, three_kinds
from tests.support.indexes.numbers import save_index as save_numbers
from tests.support.indexes.served import make_index


def package_of(index: Index) -> Package:
    assert index.package is not None
    return index.package


PEOPLE = package_of(records.make_index())
TEXTS = package_of(make_index())


def changes(old: Package, new: Package) -> list[str]:
    return differences(contract_of(old), contract_of(new))


def with_columns(package: Package, **more: dict[str, list[str] | None]) -> Package:
    """The package with other columns of a group, each with its words or None."""
    features = []
    for feature in package.features:
        own = more.get(feature.name)
        if own is not None:
            words = {name: known for name, known in own.items() if known is not None}
            columns = StoredColumns([*own], words)
            feature = msgspec.structs.replace(feature, columns=columns)
        features.append(feature)
    return replace(package, features=tuple(features))


def with_gaps(package: Package, **columns: float) -> Package:
    meta = {**package.meta, "gaps": {"columns": columns, "features": {}}}
    return replace(package, meta=meta)


def test_the_same_index_and_better_ones_break_nobody() -> None:
    better = replace(PEOPLE, overhead_s=9.0, measure="macro_f1", masks=PEOPLE.masks[:2])
    for package in (PEOPLE, TEXTS):
        assert changes(package, package) == []
    assert changes(PEOPLE, better) == []


def test_every_kind_of_difference_is_named(tmp_path: Path) -> None:
    numbers = package_of(Index.load(save_numbers(tmp_path)))
    images = package_of(Index.load(three_kinds.save_images(tmp_path)))
    euros = replace(TEXTS, meta={**TEXTS.meta, "unit": "eur"})
    assert changes(TEXTS, euros) == ["its budgets are in eur, not milliseconds"]
    assert changes(euros, TEXTS) == ["its budgets are in milliseconds, not eur"]
    assert changes(TEXTS, images) == [
        "its items are of the kind image, not text",
        "it has the new labels dark, bright",
        "it lacks the labels ham, spam",
    ]
    labelled = replace(PEOPLE, labels=("stays", "drives"))
    assert changes(PEOPLE, labelled) == [
        "it has the new labels drives",
        "it lacks the labels flies",
    ]
    first = replace(PEOPLE, meta={**PEOPLE.meta, "positive": 0})
    assert changes(PEOPLE, first) == ["its positive class is 'stays', not 'flies'"]
    turned = replace(PEOPLE, labels=PEOPLE.labels[::-1])
    assert changes(PEOPLE, turned) == ["its labels are in another order, flies, stays"]
    of_records = replace(numbers, kind="record", features=PEOPLE.features)
    assert changes(PEOPLE, of_records) == ["its answers are numbers, not classes"]
    assert changes(of_records, PEOPLE) == ["its answers are classes, not numbers"]


def test_columns_are_compared_by_name_and_by_what_they_hold() -> None:
    person: dict[str, list[str] | None] = {"age": None, "height": None}
    more = with_columns(PEOPLE, person=person | {"weight": None})
    needs = "it needs the columns weight, which callers do not send yet"
    assert changes(PEOPLE, more) == [needs]
    assert changes(with_gaps(PEOPLE), with_gaps(more, age=0.1)) == [needs]
    assert changes(PEOPLE, with_gaps(more, weight=0.01)) == []
    assert changes(more, PEOPLE) == [
        "it refuses the columns weight, which callers send"
    ]
    worded = with_columns(PEOPLE, person={"age": ["young", "old"], "height": None})
    assert changes(PEOPLE, worded) == ["its column age holds strings, not numbers"]
    assert changes(worded, PEOPLE) == ["its column age holds numbers, not strings"]
    other_words = with_columns(PEOPLE, work={"job": ["baker"]})
    assert changes(PEOPLE, other_words) == []
    dated = list(PEOPLE.features)
    dates = StoredColumns(["job"], {}, {"job": ["month"]})
    dated[1] = msgspec.structs.replace(dated[1], columns=dates)
    found = changes(PEOPLE, replace(PEOPLE, features=tuple(dated)))
    assert found == ["its column job holds dates, not strings"]


def test_words_and_free_text_are_both_strings() -> None:
    features = list(PEOPLE.features)
    text = StoredText("job", 100)
    features[1] = msgspec.structs.replace(features[1], columns=None, text=text)
    free = replace(PEOPLE, features=tuple(features))
    assert changes(PEOPLE, free) == changes(free, PEOPLE) == []


def test_what_is_fetched_is_not_sent_and_keys_are() -> None:
    fetch = StoredFetch("work", ["id"], ["job"], key_kinds=["text"])
    fetched = replace(PEOPLE, fetches=(fetch,))
    assert changes(PEOPLE, fetched) == [
        "it needs the columns id, which callers do not send yet"
    ]
    assert changes(fetched, PEOPLE) == [
        "it needs the columns job, which callers do not send yet",
        "it refuses the columns id, which callers send",
    ]
    numbered = msgspec.structs.replace(fetch, key_kinds=["whole number"])
    assert changes(fetched, replace(PEOPLE, fetches=(numbered,))) == [
        "its column id holds numbers, not strings"
    ]
    unknown = msgspec.structs.replace(fetch, key_kinds=[])
    assert changes(fetched, replace(PEOPLE, fetches=(unknown,))) == []


def test_functions_accept_any_column() -> None:
    features = list(PEOPLE.features)
    features[1] = msgspec.structs.replace(features[1], columns=None)
    free = replace(PEOPLE, features=tuple(features))
    assert changes(PEOPLE, free) == changes(free, free) == []
    assert changes(free, PEOPLE) == [
        "it knows only the columns age, height, job, not any column"
    ]


def test_an_index_is_refused_where_it_refuses_records_of_the_other() -> None:
    """The twin: records with the columns of the old index, as the new one checks."""
    groups: list[dict[str, list[str] | None]] = [
        {"age": None},
        {"age": None, "height": None},
        {"height": None},
        {"age": None, "height": None, "weight": None},
    ]
    packages = [
        with_gaps(with_columns(PEOPLE, person=g), **dict.fromkeys(g, 0.5))
        for g in groups
    ]
    for old, new in permutations(packages, 2):
        known = KnownColumns(old.features), KnownColumns(new.features)
        refused = False
        for name in known[0].names:
            try:
                known[1].check({name: 1.0})
            except BadItem:
                refused = True
        assert bool(changes(old, new)) == refused
