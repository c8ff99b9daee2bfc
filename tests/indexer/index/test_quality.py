"""What quality measures, and what answers are: stored, checked, and told."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polydom.features.errors import BadIndexFile
from polydom.indexer.index.file.pdx_file import read_file
from polydom.indexer.index.index import Index
from polydom.indexer.index.package import Package
from polydom.indexer.index.quality import OF_CLASSES, OF_NUMBERS, name_quality
from tests.support.edited_files.edits import sealed
from tests.support.indexes import numbers, served
from tests.support.indexes.zoo import with_exits

Meta = dict[str, Any]
Edit = Callable[[Meta, Meta, dict[str, Any]], object]


def test_the_accuracy_is_the_quality_unless_that_is_something_else() -> None:
    index = served.make_index()
    rows = range(len(served.ACCURACIES))
    assert [index.accuracy(row) for row in rows] == list(served.ACCURACIES)
    assert [replace(index, package=None).accuracy(0)] == [0.5]
    balanced = numbers.make_balanced_index()
    assert [balanced.accuracy(row) for row in rows] == list(served.ACCURACIES)
    assert balanced.best(100, 1.0).quality == numbers.BALANCED[3]
    assert [numbers.make_index().accuracy(row) for row in rows] == [None] * 4


def test_every_measure_has_a_name_for_people() -> None:
    assert [name_quality(measure) for measure in ("macro_f1", "r2")] == [
        "macro F1",
        "R2",
    ]
    assert not OF_CLASSES.keys() & OF_NUMBERS.keys()


@pytest.mark.parametrize("make", [numbers.make_index, numbers.make_balanced_index])
def test_what_is_stored_of_qualities_comes_back(
    tmp_path: Path, make: Callable[[], Index]
) -> None:
    index = make()
    index.save(tmp_path / "a.pdx")
    again = Index.load(tmp_path / "a.pdx")
    before, after = numbers.package_of(index), numbers.package_of(again)
    assert again.qualities.tolist() == index.qualities.tolist()
    assert (after.measure, after.labels) == (before.measure, before.labels)
    assert after.accuracies.tolist() == before.accuracies.tolist()
    assert after.intervals.tolist() == before.intervals.tolist()
    assert (after.task, after.coverage) == (before.task, before.coverage)


def test_nothing_more_is_stored_of_accuracies(tmp_path: Path) -> None:
    _, arrays, _ = read_file(served.save_index(tmp_path))
    assert not {"accuracies", "intervals"} & arrays.keys()


def put(name: str, value: Any) -> Edit:
    return lambda meta, package, arrays: arrays.update({name: np.array(value)})


def say(name: str, value: Any) -> Edit:
    return lambda meta, package, arrays: package.update({name: value})


NUMBERS, BALANCED, PLAIN = (
    numbers.make_index,
    numbers.make_balanced_index,
    served.make_index,
)
DAMAGES: list[tuple[Callable[[], Index], Edit, str]] = [
    (PLAIN, say("measure", "beauty"), "unknown measure, 'beauty'"),
    (PLAIN, say("measure", "auc"), "accuracies are not its candidates'"),
    (PLAIN, say("measure", "r2"), "class names"),
    (PLAIN, put("accuracies", [0.5] * 4), "accuracies are not its candidates'"),
    (PLAIN, put("intervals", [[0.0, 1.0]] * 4), "intervals are not its candidates'"),
    (PLAIN, say("labels", []), "class names"),
    (BALANCED, put("accuracies", [0.5] * 3), "accuracies are not its candidates'"),
    (BALANCED, put("accuracies", [[0.5]] * 4), "'accuracies' is missing or of another"),
    (BALANCED, put("accuracies", [0.5, 0.5, 0.5, 1.5]), r"accuracy outside \[0, 1\]"),
    (BALANCED, put("accuracies", [0.5, 0.5, 0.5, np.nan]), "not finite"),
    (NUMBERS, say("measure", "accuracy"), "class names"),
    (NUMBERS, say("labels", ["a"]), "class names"),
    (NUMBERS, put("intervals", [[0.0, 1.0]] * 3), "intervals are not"),
    (NUMBERS, put("intervals", [[0.0]] * 4), "intervals are not"),
    (NUMBERS, put("intervals", np.empty((0, 2))), "intervals are not"),
    (NUMBERS, put("intervals", [[0.0, np.inf]] * 4), "not finite"),
    (NUMBERS, put("intervals", [[1.0, 0.0]] * 4), "ends before it begins"),
    (NUMBERS, put("accuracies", [0.5] * 4), "accuracies are not"),
    (NUMBERS, lambda m, p, a: p["meta"].pop("coverage"), "how much they cover"),
    (NUMBERS, lambda m, p, a: p["meta"].update(coverage=1.0), "coverage"),
    (NUMBERS, lambda m, p, a: p["meta"].update(coverage="most"), "coverage"),
    (
        NUMBERS,
        lambda m, p, a: a.update(margins=np.full((4, 4), 0.5)),
        "no classes to be sure of",
    ),
]


@pytest.mark.parametrize(("make", "edit", "message"), DAMAGES)
def test_qualities_and_answers_that_do_not_fit_are_refused(
    tmp_path: Path, make: Callable[[], Index], edit: Edit, message: str
) -> None:
    path = tmp_path / "a.pdx"
    make().save(path)
    meta, arrays, _ = read_file(path)
    edit(meta, meta["package"], arrays)
    path.write_bytes(sealed(meta, arrays))
    with pytest.raises(BadIndexFile, match=f"a.pdx: damaged: .*{message}"):
        Index.load(path)


def test_models_of_the_other_kind_are_refused(tmp_path: Path) -> None:
    classes, values = (numbers.package_of(make()) for make in (PLAIN, NUMBERS))

    def refuse(index: Index, package: Package, message: str) -> None:
        replace(index, package=package).save(tmp_path / "a.pdx")
        with pytest.raises(BadIndexFile, match=message):
            Index.load(tmp_path / "a.pdx")

    mixed = (*values.models[:3], classes.models[3])
    refuse(NUMBERS(), replace(values, models=mixed), "answers (with a|no known) class")
    mixed = (*classes.models[:3], values.models[3])
    refuse(PLAIN(), replace(classes, models=mixed), "candidate 3's .* with a number")
    prior = (classes.models[0], *values.models[1:])
    refuse(NUMBERS(), replace(values, models=prior), "answers (with a|no known) class")


def test_margins_of_another_measure_are_those_of_any(tmp_path: Path) -> None:
    """Exits look at scores, whatever quality measures."""
    balanced = with_exits(numbers.make_balanced_index())
    balanced.save(tmp_path / "a.pdx")
    margins = numbers.package_of(Index.load(tmp_path / "a.pdx")).margins
    assert margins == numbers.package_of(balanced).margins
    assert np.isfinite(np.concatenate(margins)).any()
