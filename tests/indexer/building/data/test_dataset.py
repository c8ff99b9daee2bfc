"""Labelled items: put together, without rare classes, divided by whole groups."""

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from polydom.features.errors import BadProject
from polydom.features.items import make_item
from polydom.indexer import Index
from polydom.indexer.building.data.dataset import Dataset, make_dataset
from polydom.indexer.building.data.split import (
    divide_groups,
    draw_groups,
    groups_of_classes,
    newest_groups,
    split,
    treat_rare_classes,
)
from polydom.indexer.building.divide_items import splits_of
from polydom.indexer.building.project import Project
from polydom.indexer.building.project_tables.data import Data
from polydom.server.cli.app import app
from tests.support.builds.progresses import Stages
from tests.support.builds.staged_build import StagedBuild
from tests.support.oracles.building import divide_groups_slowly


def test_kinds_may_not_be_mixed() -> None:
    items = [make_item("text"), make_item({"a": 1})]
    with pytest.raises(BadProject, match="mixes record and text items"):
        make_dataset(items, ["a", "b"], ["x", "y"], [0, 1])


def texts(count: int, *, per_group: int = 1) -> Dataset:
    items = [make_item(f"text {i}") for i in range(count)]
    labels = [str(i // per_group % 2) for i in range(count)]
    groups = [i // per_group for i in range(count)]
    return make_dataset(items, [str(i) for i in range(count)], labels, groups)


@pytest.mark.parametrize("folds", [None, 3])
def test_split_never_separates_a_group(folds: int | None) -> None:
    dataset = texts(120, per_group=4)
    pairs = split(dataset, seed=1, held_out=0.25, folds=folds)
    assert len(pairs) == (folds or 1)
    for train, test in pairs:
        assert not set(dataset.groups[train]) & set(dataset.groups[test])
        assert sorted([*train, *test]) == list(range(120))
        assert set(dataset.codes[test]) == {0, 1}


def test_split_repeats_for_a_seed_and_keeps_its_share() -> None:
    dataset = texts(200)
    ((train, test),) = split(dataset, seed=3, held_out=0.25, folds=None)
    ((_, again),) = split(dataset, seed=3, held_out=0.25, folds=None)
    np.testing.assert_array_equal(test, again)
    assert len(test) == 50
    assert len(train) == 150


def test_split_needs_enough_of_each_class() -> None:
    with pytest.raises(BadProject, match=r"class '0' has 2 independent items"):
        split(texts(16, per_group=4), seed=0, held_out=0.25, folds=None)


def test_split_names_a_class_that_none_would_be_trained_on() -> None:
    """Whose few items are in large groups of other classes, all on one side."""
    groups = [{"a": 100}, {"b": 60}, {"b": 50, "c": 1}, {"d": 30}, {"e": 28}]
    groups += [{"d": 25, "c": 1}, {"e": 24, "c": 1}, {"a": 1}]
    rows = [
        (label, str(number))
        for number, group in enumerate(groups)
        for label, count in group.items()
        for _ in range(count)
    ]
    labels, names = zip(*rows, strict=True)
    items = [make_item(f"text {i}") for i in range(len(rows))]
    dataset = make_dataset(items, names, labels, names)
    with pytest.raises(BadProject, match=r"class 'c' would be tested on and none"):
        split(dataset, seed=0, held_out=0.5, folds=None)


def test_digest_ignores_names_but_not_labels_or_contents() -> None:
    one = texts(4)
    items, groups = one.items, one.groups.tolist()
    labels = ["0", "1", "0", "1"]
    assert make_dataset(items, list("abcd"), labels, groups).digest == one.digest
    other = make_dataset(items, list("abcd"), ["0", "1", "1", "1"], groups)
    assert other.digest != one.digest


def test_items_left_out_later_are_reported() -> None:
    dataset = texts(6).without({2: "truncated"})
    assert len(dataset.items) == 5
    assert dataset.skipped == (("2", "truncated"),)
    assert dataset.codes.tolist() == [0, 1, 1, 0, 1]


def dataset(**counts: int) -> Dataset:
    """So many items of each class."""
    labels = [label for label, count in counts.items() for _ in range(count)]
    items = [make_item(f"text {i}") for i in range(len(labels))]
    names = [str(i) for i in range(len(labels))]
    return make_dataset(items, names, labels, names)


def terms(what: str, below: int | None = None) -> Data:
    content = {"texts": "x", "on_rare_class": what}
    if below is not None:
        content |= {"rare_below": below}  # type: ignore[dict-item]
    return Project.from_mapping({"data": content}).data


def test_classes_that_are_not_rare_stay_as_they_are() -> None:
    before = dataset(a=4, b=9)
    for what in ("stop", "skip", "merge"):
        after, rows = treat_rare_classes(before, terms(what), 4)
        assert after is before
        assert rows.tolist() == list(range(13))


def test_rare_classes_are_left_out_and_said_to_be() -> None:
    after, rows = treat_rare_classes(dataset(a=5, b=3, c=9), terms("skip"), 4)
    assert after.labels == ("a", "c")
    assert rows.tolist() == [*range(5), *range(8, 17)]
    assert np.bincount(after.codes).tolist() == [5, 9]
    assert after.skipped[0] == (
        "5",
        "class 'b' has 3 independent items; fewer than 4 are rare",
    )
    assert len(after.skipped) == 3


def test_rare_classes_become_one() -> None:
    after, rows = treat_rare_classes(dataset(a=5, b=3, c=9, d=2), terms("merge"), 4)
    assert after.labels == ("a", "c", "other")
    assert np.bincount(after.codes).tolist() == [5, 9, 5]
    assert rows.tolist() == list(range(19))
    assert treat_rare_classes(after, terms("merge"), 4)[0] is after


def test_more_than_dividing_needs_may_be_asked_for() -> None:
    after, _ = treat_rare_classes(dataset(a=5, b=3, c=9, d=8), terms("skip", 8), 4)
    assert after.labels == ("c", "d")
    with pytest.raises(BadProject, match=r"class 'a' has 5 .* at least 8 of each"):
        treat_rare_classes(dataset(a=5, b=30), terms("stop", 8), 4)


def test_rare_classes_are_trained_on_and_never_tested() -> None:
    before = dataset(a=9, b=3, c=1, d=8)
    assert treat_rare_classes(before, terms("train"), 1)[0] is before
    for folds in (None, 4):
        pairs = split(before, seed=0, held_out=0.25, folds=folds, train_rare=True)
        for train, test in pairs:
            assert sorted([*train, *test]) == list(range(21))
            assert set(before.codes[test]) == {0, 3}
            assert set(before.codes[train]) == {0, 1, 2, 3}
    with pytest.raises(BadProject, match=r"'b' has 3 .* at least 4 of each class"):
        split(before, seed=0, held_out=0.25, folds=None)
    few = dataset(a=2, b=3)
    with pytest.raises(BadProject, match=r"'a' has 2 .*'train'"):
        split(few, seed=0, held_out=0.25, folds=None, train_rare=True)


def test_groups_of_rare_classes_are_never_tested() -> None:
    items = [make_item(f"text {i}") for i in range(20)]
    labels = ["a"] * 10 + ["b"] * 9 + ["c"]
    groups = [*range(10), *range(9), 0]
    mixed = make_dataset(items, labels, labels, groups)
    ((_, test),) = split(mixed, seed=0, held_out=0.5, folds=None, train_rare=True)
    assert not set(mixed.groups[test]) & {0}
    assert set(mixed.codes[test]) == {0, 1}


@pytest.mark.parametrize(
    ("what", "counts", "message"),
    [
        ("stop", {"a": 2, "b": 9}, r"'a' has 2 .* at least 4 .*on_rare_class = 'skip'"),
        ("stop", {"a": 2, "b": 9, "c": 1, "d": 1}, "and 2 more classes are as rare"),
        ("skip", {"a": 2, "b": 3}, "every class has fewer than 4 .*'a' 2, 'b' 3"),
        ("skip", {"a": 2, "b": 9}, "all 9 items have the label 'b'"),
        ("merge", {"a": 2, "b": 9}, r"class 'other' has 2 independent items"),
        ("merge", {"a": 2, "b": 3}, "all 5 items have the label 'other'"),
    ],
)
def test_what_is_left_must_be_enough(
    what: str, counts: dict[str, int], message: str
) -> None:
    with pytest.raises(BadProject, match=message):
        treat_rare_classes(dataset(**counts), terms(what), 4)


def table(folder: Path, rare: int, **more: Any) -> Project:
    """A table of two classes, and a third of a few rows."""
    rows = ["x,y,label"]
    rows += [f"{i % 7},{i % 2},{'ab'[i % 2]}" for i in range(80)]
    rows += [f"{i},{i},c" for i in range(rare)]
    (folder / "rows.csv").write_text("\n".join(rows))
    return Project.from_mapping(
        {
            "data": {"table": "rows.csv"},
            "learner": {"name": "tree"},
            "costs": {"items": 4, "repeats": 1},
            "workers": 1,
            **more,
        },
        folder=folder,
    )


@pytest.mark.parametrize(
    ("more", "rare", "fewest"),
    [
        ({}, 3, 4),
        ({"search": {"folds": 6}}, 5, 6),
        ({"search": {"held_out": 0.1}}, 9, 10),
        ({"learner": {"name": "auto"}, "search": {"held_out": 0.5}}, 3, 4),
        ({"learner": {"name": "auto"}, "search": {"held_out": 0.3}}, 2, 3),
        ({"data": {"table": "rows.csv", "rare_below": 20}}, 19, 20),
    ],
)
def test_a_class_too_small_stops_a_build_before_any_feature(
    tmp_path: Path, more: dict[str, Any], rare: int, fewest: int
) -> None:
    stages = Stages()
    builder = StagedBuild(table(tmp_path, rare, **more), tmp_path / "c", stages)
    with pytest.raises(
        BadProject, match=rf"class 'c' has {rare} .* at least {fewest} of each class"
    ):
        _ = builder.table
    assert list(stages.done) == ["reading items"]
    plan = table(tmp_path, fewest, **more)
    dataset, _, values, _ = StagedBuild(plan, tmp_path / "c").table
    assert dataset.labels == ("a", "b", "c")
    assert len(values) == 80 + fewest


def test_nothing_is_set_aside_that_leaves_a_class_too_small(tmp_path: Path) -> None:
    exits = {"exits": {"alpha": 0.3, "confidence": 0.8}}
    builder = StagedBuild(table(tmp_path, 6, **exits), tmp_path / "c")
    assert len(builder.table.values) == 86
    assert "class 'c' would have" in builder.data.lacking
    assert "of at least 7" in builder.data.lacking


MERGING = """\
workers = 1
learner = "tree"
[data]
table = "rows.csv"
on_rare_class = "{what}"
[costs]
items = 4
repeats = 1
"""


@pytest.mark.jit
@pytest.mark.parametrize(
    ("what", "rare", "labels"),
    [("merge", 3, ("a", "b", "other")), ("skip", 3, ("a", "b"))],
)
def test_a_project_says_what_becomes_of_rare_classes(
    tmp_path: Path, what: str, rare: int, labels: tuple[str, ...]
) -> None:
    table(tmp_path, rare)
    with (tmp_path / "rows.csv").open("a") as file:
        file.write("\n7,7,d\n8,8,d")  # with c there are five
    (tmp_path / "PROJECT.toml").write_text(MERGING.format(what=what))
    arguments = ["build", str(tmp_path / "PROJECT.toml"), "-o", str(tmp_path / "i.pdx")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    package = Index.load(tmp_path / "i.pdx").package
    assert package is not None
    assert package.labels == labels
    assert len(package.meta["skipped"]) == (5 if what == "skip" else 0)


ITEMS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 9)), min_size=1, max_size=60
)


@given(ITEMS, st.integers(1, 6), st.integers(0, 3))
def test_division_agrees_with_trying_every_part(
    items: list[tuple[int, int]], parts: int, seed: int
) -> None:
    codes, groups = np.array(items, np.int64).T
    found = divide_groups(codes, groups, parts, seed)
    slow = divide_groups_slowly(codes.tolist(), groups.tolist(), parts, seed)
    assert found.tolist() == slow


@given(ITEMS, st.integers(1, 6))
def test_no_group_is_divided(items: list[tuple[int, int]], parts: int) -> None:
    codes, groups = np.array(items, np.int64).T
    found = divide_groups(codes, groups, parts, 0)
    assert ((found >= 0) & (found < parts)).all()
    for group in set(groups.tolist()):
        assert len(set(found[groups == group].tolist())) == 1


@given(st.lists(st.integers(0, 3), min_size=1, max_size=80), st.integers(1, 5))
def test_single_items_are_divided_evenly_class_by_class(
    codes: list[int], parts: int
) -> None:
    found = divide_groups(np.array(codes), np.arange(len(codes)), parts, 1)
    for code in set(codes):
        held = Counter(found[np.array(codes) == code].tolist())
        counts = [held[part] for part in range(parts)]
        assert max(counts) - min(counts) <= 1


@given(st.lists(st.integers(1, 9), min_size=4, max_size=30), st.integers(2, 4))
def test_every_part_gets_a_class_of_as_many_groups(
    sizes: list[int], parts: int
) -> None:
    groups = np.repeat(np.arange(len(sizes)), sizes)
    codes = groups % 2
    found = divide_groups(codes, groups, parts, 0)
    for code in (0, 1):
        if len(np.unique(groups[codes == code])) >= parts:
            assert set(found[codes == code].tolist()) == set(range(parts))


def test_parts_of_mixed_groups_are_about_as_fair_as_scikit_learns() -> None:
    from sklearn.model_selection import StratifiedGroupKFold

    random = np.random.default_rng(0)
    groups = random.integers(0, 120, 2000)
    lean = random.random(120)  # most groups are mostly of one class
    codes = (random.random(2000) < lean[groups]).astype(np.int64)

    def unfairness(parts: list[Any]) -> float:
        shares = [codes[part].mean() for part in parts]
        sizes = [len(part) / 2000 for part in parts]
        return float(max(np.ptp(shares), np.ptp(sizes)))

    found = divide_groups(codes, groups, 5, 0)
    own = unfairness([np.flatnonzero(found == part) for part in range(5)])
    folds = StratifiedGroupKFold(5, shuffle=True, random_state=0)
    theirs = unfairness([test for _, test in folds.split(codes, codes, groups)])
    assert own <= theirs + 0.01


@pytest.mark.jit
def test_a_table_of_434_000_rows_is_divided_at_once() -> None:
    codes = np.random.default_rng(0).integers(0, 7, 434_000)
    before = time.thread_time()
    found = divide_groups(codes, np.arange(len(codes)), 4, 0)
    assert time.thread_time() - before < 10  # of 0.2; scikit-learn's takes 75
    assert np.ptp(np.bincount(found)) <= 7


@given(ITEMS, st.integers(0, 5))
def test_classes_are_counted_by_groups(items: list[tuple[int, int]], more: int) -> None:
    codes, groups = np.array(items, np.int64).T
    found = groups_of_classes(codes, groups, 5 + more)
    expected = [len({g for c, g in items if c == code}) for code in range(5 + more)]
    assert found.tolist() == expected


@given(ITEMS, st.floats(0, 1), st.integers(0, 3))
def test_whole_groups_are_drawn_and_a_share_of_them(
    items: list[tuple[int, int]], share: float, seed: int
) -> None:
    _, groups = np.array(items, np.int64).T
    drawn = draw_groups(groups, share, seed)
    names = set(groups[drawn].tolist())
    assert not names & set(groups[~drawn].tolist())
    assert len(names) == round(share * len(set(groups.tolist())))


def test_what_groups_hold_plays_no_part_in_the_draw() -> None:
    """Each group as likely as any other, whatever its size and its place."""
    groups = np.array([0] * 9 + [1] + [2] * 3 + [3])
    times = np.zeros(4)
    for seed in range(4000):
        times[np.unique(groups[draw_groups(groups, 0.5, seed)])] += 1
    assert times == pytest.approx(2000, abs=200)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=30),
    st.sampled_from([0.0, 0.125, 0.25, 0.5]),
)
def test_newest_groups_are_taken_whole_until_they_are_enough(
    rows: list[tuple[int, int]], share: float
) -> None:
    groups, times = (np.array(part) for part in zip(*rows, strict=True))
    chosen = newest_groups(groups, times, share)
    newest = {g: max(t for own, t in rows if own == g) for g, _ in rows}
    taken = list[int]()
    for group in sorted(newest, key=lambda g: (newest[g], g), reverse=True):
        if sum(g in taken for g, _ in rows) >= round(share * len(rows)):
            break
        taken.append(group)
    assert chosen.tolist() == [group in taken for group, _ in rows]


def test_what_is_there_to_test_on_is_tested_on() -> None:
    tested = np.arange(40) % 5 == 0
    items = replace(texts(40), tested=tested)
    ((train, test),) = split(items, seed=0, held_out=0.25, folds=None)
    assert test.tolist() == np.flatnonzero(tested).tolist()
    assert train.tolist() == np.flatnonzero(~tested).tolist()
    # within what is trained on, some are chosen as ever
    ((_, inner),) = split(items.only(train), seed=0, held_out=0.25, folds=None)
    assert len(inner) == 8
    alone = replace(items, codes=tested.astype(np.int64))
    with pytest.raises(BadProject, match=r"class '1' would be .* only \[data\] test"):
        split(alone, seed=0, held_out=0.25, folds=None)


def test_newest_items_are_tested_on() -> None:
    items = replace(texts(40), times=np.arange(40) % 10 + np.arange(40) / 100)
    ((train, test),) = split(items, seed=0, held_out=0.25, folds=None)
    assert items.times is not None
    assert len(test) == 10
    assert items.times[test].min() > items.times[train].max()
    sorted_by_class = replace(items, codes=(items.times > 8).astype(np.int64))
    with pytest.raises(BadProject, match=r"'1' would be .* among the newest; a sma"):
        split(sorted_by_class, seed=0, held_out=0.5, folds=None)


@pytest.mark.parametrize("by", ["test", "time"])
def test_what_is_set_aside_is_never_there_to_test_on(tmp_path: Path, by: str) -> None:
    rows = [f"{k % 7},{k},{k % 2}" for k in range(12_000)]
    (tmp_path / "a.csv").write_text("\n".join(["x,t,label", *rows[:9000]]))
    (tmp_path / "b.csv").write_text("\n".join(["x,t,label", *rows[9000:]]))
    data = {"table": "a.csv", "ignore": ["t"]}
    data |= {"test": "b.csv"} if by == "test" else {"split": "time", "time": "t"}
    content = {"data": data, "learner": "tree", "exits": {"alpha": 0.01}}
    project = Project.from_mapping(content, folder=tmp_path)
    builder = StagedBuild(project, tmp_path / "cache")
    divided = builder.divided
    rest, fresh, parts = divided.rest, divided.fresh, divided.parts
    ((train, test),) = splits_of(rest, parts, builder.terms)
    share = len(fresh.items) / (len(fresh.items) + len(rest.items))
    if by == "test":
        assert [rest.names[row] for row in test] == [
            f"b.csv, row {k}" for k in range(2, 3002)
        ]
        assert len(fresh.items) == 1125
        assert all(name.startswith("a.csv") for name in fresh.names)
        return
    assert share == pytest.approx(1 / 8)
    assert rest.times is not None
    assert fresh.times is not None
    assert fresh.times.min() > rest.times.max()
    assert rest.times[test].min() > rest.times[train].max()
    assert len(test) == len(fresh.items)
