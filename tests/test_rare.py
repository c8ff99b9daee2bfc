"""Classes of too few items: refused before any work, left out, or made one."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from polydom.features.errors import BadProject
from polydom.indexer import Index
from polydom.indexer.builder import Builder
from polydom.indexer.cache import Cache
from polydom.indexer.cli import app
from polydom.indexer.data import Dataset, make_dataset, make_item
from polydom.indexer.project import Data, Project
from polydom.indexer.rare import settle_rare

from .progresses import Stages


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
        after, rows = settle_rare(before, terms(what), 4)
        assert after is before
        assert rows.tolist() == list(range(13))


def test_rare_classes_are_left_out_and_said_to_be() -> None:
    after, rows = settle_rare(dataset(a=5, b=3, c=9), terms("skip"), 4)
    assert after.labels == ("a", "c")
    assert rows.tolist() == [*range(5), *range(8, 17)]
    assert np.bincount(after.codes).tolist() == [5, 9]
    assert after.skipped[0] == (
        "5",
        "class 'b' has 3 independent items; fewer than 4 are rare",
    )
    assert len(after.skipped) == 3


def test_rare_classes_become_one() -> None:
    after, rows = settle_rare(dataset(a=5, b=3, c=9, d=2), terms("merge"), 4)
    assert after.labels == ("a", "c", "other")
    assert np.bincount(after.codes).tolist() == [5, 9, 5]
    assert rows.tolist() == list(range(19))
    assert settle_rare(after, terms("merge"), 4)[0] is after


def test_more_than_dividing_needs_may_be_asked_for() -> None:
    after, _ = settle_rare(dataset(a=5, b=3, c=9, d=8), terms("skip", 8), 4)
    assert after.labels == ("c", "d")
    with pytest.raises(BadProject, match=r"class 'a' has 5 .* at least 8 of each"):
        settle_rare(dataset(a=5, b=30), terms("stop", 8), 4)


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
        settle_rare(dataset(**counts), terms(what), 4)


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
        ({"learner": {"name": "auto"}, "search": {"held_out": 0.5}}, 5, 6),
        ({"learner": {"name": "auto"}, "search": {"held_out": 0.3}}, 4, 5),
        ({"data": {"table": "rows.csv", "rare_below": 20}}, 19, 20),
    ],
)
def test_a_class_too_small_stops_a_build_before_any_feature(
    tmp_path: Path, more: dict[str, Any], rare: int, fewest: int
) -> None:
    stages = Stages()
    builder = Builder(table(tmp_path, rare, **more), Cache(tmp_path / "c"), stages)
    with pytest.raises(
        BadProject, match=rf"class 'c' has {rare} .* at least {fewest} of each class"
    ):
        builder.data()
    assert list(stages.done) == ["reading items"]
    plan = table(tmp_path, fewest, **more)
    dataset, _, values = Builder(plan, Cache(tmp_path / "c"), Stages()).data()
    assert dataset.labels == ("a", "b", "c")
    assert len(values) == 80 + fewest


def test_a_class_that_a_calibrated_build_leaves_too_small_stops_it(
    tmp_path: Path,
) -> None:
    exits = {"exits": {"alpha": 0.3, "confidence": 0.8}}
    plan = table(tmp_path, 6, **exits)
    with pytest.raises(BadProject, match=r"class 'c' has . .* at least 7 of each"):
        Builder(plan, Cache(tmp_path / "c"), Stages()).data()


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
