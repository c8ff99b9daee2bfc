"""Columns of free text in a project's records: which features, and what they learn."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polydom.features.errors import BadFeature, BadProject
from polydom.features.extract import with_needs
from polydom.features.items import record_item, text_item
from polydom.features.ready_made.learned_text import recipes_by_name
from polydom.indexer.building.cache import Cache
from polydom.indexer.building.costs.measured_items import measuring_items
from polydom.indexer.building.data.dataset import Dataset
from polydom.indexer.building.data.read_items import load_data
from polydom.indexer.building.features.choose_features import (
    ProjectFeatures,
    choose_features,
)
from polydom.indexer.building.features.column_groups import MAX_FEATURES
from polydom.indexer.building.features.feature_values import (
    FeatureTable,
    compute_values,
)
from polydom.indexer.building.features.learn_features import (
    FeatureLearner,
    learn_features,
    lesson_of,
)
from polydom.indexer.building.features.text_features import (
    BEST_FIRST,
    text_lengths,
    texts_in,
)
from polydom.indexer.building.package_index import count_gaps
from polydom.indexer.building.project import Project
from polydom.indexer.building.template import default_features
from polydom.indexer.cluster.workers import Workers
from polydom.indexer.index.package import MOST_BITS
from polydom.indexer.progress import Silence

WORDS = {
    "work": ["meeting", "report", "budget", "project", "deadline", "review"],
    "home": ["dinner", "weekend", "birthday", "garden", "family", "party"],
}
COMMON = ["the", "a", "to", "and", "we", "of"]
USUAL = default_features("text")


def text(rng: np.random.Generator, label: str, length: int) -> str:
    words = rng.choice(WORDS[label], length)
    return " ".join(
        [*words, *rng.choice(["the", "a", "to", "and", "we", "of"], length)]
    )


def mails(count: int = 60, texts: Sequence[str] = ("subject", "body")) -> list[Any]:
    """Rows of labels, numbers, words, and columns of free text, a few of them empty."""
    rng = np.random.default_rng(3)
    rows = []
    for number in range(count):
        label = "work" if number % 2 else "home"
        row = {name: text(rng, label, int(rng.integers(3, 12))) for name in texts}
        row |= {"sender": f"s{number % 4}", "files": str(number % 3), "label": label}
        if number in (4, 9, 14):
            row[texts[0]] = ""
        rows.append(row)
    return rows


def project(folder: Path, rows: list[Any], **content: Any) -> Project:
    with (folder / "mail.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return Project.from_mapping(
        {"data": {"table": "mail.csv"}, "workers": 1} | content, folder=folder
    )


def data_of(own: Project) -> Dataset:
    with Silence().stage("reading", None) as on_progress:
        return load_data(own, on_progress)


def chosen(folder: Path, rows: list[Any], **content: Any) -> ProjectFeatures:
    own = project(folder, rows, **content)
    return choose_features(own, data_of(own))


def names_of(found: ProjectFeatures) -> list[str]:
    return [*(one.name for one in found.stored), *(one.name for one in found.recipes)]


def on(column: str, names: Sequence[str] = USUAL) -> set[str]:
    return {f"{column}: {name}" for name in names}


def test_without_a_word_a_column_of_text_has_what_texts_have(tmp_path: Path) -> None:
    found = names_of(chosen(tmp_path, mails()))
    assert found[:2] == ["sender", "files"]
    assert {*found[2:]} == on("subject") | on("body")
    assert len(found) == 2 + 2 * len(USUAL)
    assert {*BEST_FIRST} == {*USUAL}


def test_features_are_chosen_by_hand_beside_groups_and_others(tmp_path: Path) -> None:
    use = ["body: learned_words", "body: text_length"]
    assert names_of(chosen(tmp_path, mails(), features={"use": use})) == use[::-1]
    groups = [{"name": "facts", "columns": ["sender"]}]
    beside = {"use": use, "columns": groups}
    found = names_of(chosen(tmp_path, mails(), features=beside))
    assert {*found} == {*use, "facts"}
    others = names_of(chosen(tmp_path, mails(), features={**beside, "others": True}))
    assert {*others} == {*use, "facts", "files"} | on("subject")


def test_a_group_of_kind_text_says_no_more_than_that(tmp_path: Path) -> None:
    said = {"name": "sender", "columns": ["sender"], "kind": "text"}
    found = names_of(chosen(tmp_path, mails(), features={"columns": [said]}))
    assert {*found} == on("sender")
    use = ["sender: casing"]
    chosen_too = {"columns": [said], "use": use}
    assert names_of(chosen(tmp_path, mails(), features=chosen_too)) == use
    words = {"name": "body", "columns": ["body"], "kind": "word"}
    assert names_of(chosen(tmp_path, mails(), features={"columns": [words]})) == [
        "body"
    ]


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"use": ["bdy: casing"]}, "no row has a column 'bdy'; did you mean 'body'"),
        ({"use": ["label: casing"]}, "no row has a column 'label'"),
        (
            {"use": ["files: casing"]},
            "column 'files' holds no free text; .*kind = \"text\"",
        ),
        (
            {"use": ["body: caseing"]},
            "no feature of texts 'caseing'; did you mean 'casing'",
        ),
        ({"use": ["body: hog"]}, "there is no feature of texts 'hog'"),
        ({"use": ["casing"]}, "'casing' is for text items; .* 'subject: casing'"),
        ({"use": ["learned_words"]}, "'subject: learned_words'"),
        ({"use": ["body: casing"] * 2}, "names 'body: casing' twice"),
        (
            {"columns": [{"name": "all", "columns": ["files", "body"]}]},
            "'all' has column 'body', which holds free text, beside others",
        ),
        (
            {
                "columns": [
                    {"name": "b", "columns": ["body", "subject"], "cost": {"s": 1}}
                ]
            },
            "'b' has a cost and 2 columns of free text",
        ),
    ],
)
def test_what_cannot_be_chosen_is_refused_in_a_sentence(
    tmp_path: Path, features: dict[str, Any], message: str
) -> None:
    with pytest.raises((BadProject, BadFeature), match=message):
        chosen(tmp_path, mails(20), features=features)


def test_many_columns_of_text_have_fewer_features_each(tmp_path: Path) -> None:
    for count, expected in ((6, 7), (12, 1)):
        texts = [f"t{number}" for number in range(count)]
        found = chosen(tmp_path, mails(30, texts))
        names = names_of(found)
        own = {name for name in names if ": " in name}
        each = len(own) // count
        assert own == {f"{t}: {n}" for t in texts for n in BEST_FIRST[:each]}
        assert each == expected
        assert len(names) <= MAX_FEATURES
        made = [one.feature(learned()) for one in found.recipes]
        features = [*(found.extractor.features), *made]
        assert len(with_needs(features)) <= MOST_BITS
    with pytest.raises(BadProject, match=r"13 columns of free text.*t0: learned_wor"):
        chosen(tmp_path, mails(30, [f"t{number}" for number in range(13)]))


def learned() -> Any:
    from polydom.features.ready_made.learned_text import NOTHING

    return NOTHING


def test_very_many_columns_beside_texts_share_features(tmp_path: Path) -> None:
    rows = [row | {f"n{k}": str(k) for k in range(70)} for row in mails(20)]
    names = names_of(chosen(tmp_path, rows))
    assert sum(": " not in name for name in names) == 16
    assert {name for name in names if ": " in name} == on("subject") | on("body")


def test_ones_own_features_of_texts_are_put_on_columns(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from polydom.features import feature\n\n"
        "@feature(kind='text')\ndef mine(text):\n    return [len(text)]\n"
    )
    features = {"files": ["mine.py"], "use": ["body: mine", "subject: mine"]}
    found = chosen(tmp_path, mails(), features=features)
    assert names_of(found) == features["use"]
    assert not any(one.ready_made for one in found.stored)
    assert found.extractor.extract(record_item({"body": "four"})).tolist() == [4, 0]
    with pytest.raises(BadProject, match=r"'mine' is for text .* 'subject: mine'"):
        chosen(tmp_path, mails(), features={"files": ["mine.py"]})


def test_columns_whose_names_hold_colons_are_told_apart(tmp_path: Path) -> None:
    rows = mails(40, ["a", "a: b"])
    use = ["a: casing", "a: b: casing"]
    found = chosen(tmp_path, rows, features={"use": use})
    assert [one.text.column for one in found.stored if one.text] == ["a", "a: b"]


def table_of(dataset: Dataset, own: Project, cache: Path) -> FeatureTable:
    """All features computed, and learned from every other row, as a build does."""
    workers = Workers.here(1)
    table = compute_values(
        dataset,
        choose_features(own, dataset),
        on_bad_item="stop",
        workers=workers,
        cache=Cache(cache),
        progress=Silence(),
    )
    rows = np.arange(len(dataset.items))
    lesson = lesson_of(dataset, [(rows[::2], rows[1::2])], 1)
    learner = FeatureLearner(workers, Cache(cache), Silence())
    return learn_features(table, lesson, learner)


def test_what_is_learned_and_computed_is_that_of_the_texts_alone(
    tmp_path: Path,
) -> None:
    rows, use = mails(80), [*USUAL, "hashed_words"]
    features = {
        "use": [f"{column}: {n}" for column in ("subject", "body") for n in use]
    }
    own = project(tmp_path, rows, features=features, costs={"items": 5})
    dataset = data_of(own)
    found = table_of(dataset, own, tmp_path / "cache")
    assert found.values.shape[1] == found.features.starts[-1]
    for column in ("subject", "body"):
        items = tuple(text_item(row[column]) for row in rows)
        alone = Dataset(items, *_rest(dataset))
        plain = Project.from_mapping(
            {"data": {"texts": "none.jsonl"}, "features": {"use": use}},
            folder=tmp_path,
        )
        expected = table_of(alone, plain, tmp_path / column)
        for name in use:
            own_columns = _columns(found.features, f"{column}: {name}")
            np.testing.assert_array_equal(
                found.values[:, own_columns],
                expected.values[:, _columns(expected.features, name)],
                err_msg=f"{column}: {name}",
            )
    learned_ones = [one for one in found.features.stored if one.learned]
    assert len(learned_ones) == 2 * 5
    # rows that were not learned from are scored by what is stored
    again = compute_values(
        dataset,
        found.features,
        on_bad_item="stop",
        workers=Workers.here(1),
        cache=Cache(tmp_path / "again"),
        progress=Silence(),
    )
    np.testing.assert_array_equal(again.values[1::2], found.values[1::2])
    assert not np.array_equal(again.values[::2], found.values[::2])


def _rest(dataset: Dataset) -> tuple[Any, ...]:
    return dataset.names, dataset.labels, dataset.codes, dataset.groups


def _columns(features: ProjectFeatures, name: str) -> slice:
    names = [one.name for one in features.stored]
    at = names.index(name)
    return slice(features.starts[at], features.starts[at + 1])


def test_labels_of_rows_not_learned_from_play_no_part(tmp_path: Path) -> None:
    use = {"use": ["body: learned_words"]}
    own = project(tmp_path, mails(80), features=use)
    dataset = data_of(own)
    before = table_of(dataset, own, tmp_path / "a").values
    codes = dataset.codes.copy()
    codes[1::2] = 1 - codes[1::2]
    other = Dataset(dataset.items, dataset.names, dataset.labels, codes, dataset.groups)
    np.testing.assert_array_equal(
        before[1::2], table_of(other, own, tmp_path / "b").values[1::2]
    )


def test_empty_cells_are_counted_as_of_other_columns(tmp_path: Path) -> None:
    use = {"use": ["subject: casing", "subject: learned_words", "body: casing"]}
    own = project(tmp_path, mails(60), features=use)
    gaps = count_gaps(table_of(data_of(own), own, tmp_path))
    assert gaps.columns == {"subject": 3 / 60}
    names = ["subject: casing", "subject: learned_words"]
    assert gaps.features == dict.fromkeys(names, 3 / 60)


def test_records_are_measured_over_the_lengths_of_their_texts(tmp_path: Path) -> None:
    rows = mails(40)
    for number, row in enumerate(rows):
        row["subject"] = "a b c d " + "x" * number
        row["body"] = "one two three four " + "y" * (1000 * number)
    dataset = data_of(project(tmp_path, rows[::-1]))
    measured = [len(str(i.payload["body"])) for i in measuring_items(dataset, 4)]  # type: ignore[index,call-overload]
    # each the middle of those that it stands for, so none is the longest
    assert [round(length, -3) for length in measured] == [5000, 15000, 25000, 35000]
    assert len(measuring_items(dataset, 1000)) == 40
    lengths = text_lengths(dataset.items)
    assert lengths is not None
    assert lengths.max() == len(rows[-1]["subject"]) + len(rows[-1]["body"])


def test_records_that_are_no_rows_have_columns_of_text_too(tmp_path: Path) -> None:
    rows = [{k: v for k, v in row.items() if k != "label"} for row in mails(40)]
    rows[0]["body"] += " \ud800"  # of which Arrow has none
    rows[1].pop("body")
    rows[2]["body"] = None
    own = Project.from_mapping({"data": {"items": "none:load"}}, folder=tmp_path)
    (tmp_path / "none.py").write_text("")
    items = tuple(map(record_item, rows))
    codes = np.arange(40) % 2
    names = [f"item {number}" for number in range(40)]
    dataset = Dataset(items, names, ("a", "b"), codes, np.arange(40))
    found = choose_features(own, dataset)
    assert {*names_of(found)} == {"sender", "files"} | on("subject") | on("body")
    (most,) = {
        one.text.most for one in found.stored if one.name == "body: casing" and one.text
    }
    assert most == max(len(row.get("body") or "") for row in rows)
    (recipe,) = (r for r in found.recipes if r.name == "body: learned_words")
    assert recipe.text
    texts = texts_in(dataset, recipe.text)
    assert [item.payload for item in texts.items][:3] == [rows[0]["body"], "", ""]
    assert recipe.recipe is recipes_by_name()["learned_words"]
