"""Items answered under one budget, by this process or by several."""

import os
import signal
import time
from collections.abc import Iterator
from multiprocessing import active_children
from pathlib import Path

import pytest

from polydom.features.errors import BadIndexFile, BadInput
from polydom.features.items import text_item
from polydom.indexer.index.index import Index
from polydom.server import score_items
from tests.support.indexes.served import (
    ACCURACIES,
    FEATURES_FILE,
    HAM,
    SPAM,
    make_index,
    save_index,
)
from tests.support.indexes.three_kinds import picture, save_images

OWN = [FEATURES_FILE]
TEXTS = [HAM, SPAM, "lunch?"] * 50


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return save_index(tmp_path)


def test_score_items_answers_in_order(index: Path) -> None:
    rows = list(score_items(index, TEXTS, 30.0, features=OWN))
    assert [row.item for row in rows] == list(range(150))
    assert [row.label for row in rows[:3]] == ["ham", "spam", "ham"]
    assert {row.features for row in rows} == {("length", "marks", "words")}
    assert all(row.cost is not None and 0 < row.cost < 1 for row in rows)
    assert {row.error for row in rows} == {None}


def test_score_items_spends_money_as_far_as_it_goes() -> None:
    # 0.0002 for the prior and 0.0012 for the length, of any text
    index = make_index("usd")
    texts = (text for text in TEXTS)
    rows = score_items(index, texts, total_budget=0.1, features=OWN, count=150)
    found = list(rows)
    assert sum(row.cost or 0 for row in found) <= 0.1
    accuracies = [row.expected_accuracy for row in found]
    # 70 if all were solved at once; each of three chunks leaves less than one step
    assert accuracies.count(ACCURACIES[1]) in (68, 69, 70)


def test_score_items_keeps_errors_in_their_places(index: Path) -> None:
    items = [HAM, b"x", "a\x00", text_item(SPAM)]
    rows = list(score_items(index, items, 9.0, features=OWN))  # type: ignore[arg-type]
    errors = [row.error or "" for row in rows]
    assert [bool(error) for error in errors] == [False, True, True, False]
    assert "a text was expected, not bytes" in errors[1]
    assert "'words'" in errors[2]
    assert (rows[1].label, rows[1].scores, rows[1].cost) == (None, None, None)


@pytest.mark.parametrize("workers", [1, 2])
def test_score_items_goes_on_after_an_image_that_was_cut_off(
    workers: int, tmp_path: Path
) -> None:
    dark, bright = picture(20), picture(220)
    items = [dark, bright[: len(bright) // 2], bright]
    rows = list(score_items(save_images(tmp_path), items, 9.0, workers=workers))
    assert [row.label for row in rows] == ["dark", None, "bright"]
    assert "image" in (rows[1].error or "")


def test_score_items_lists_the_likeliest_of_a_class(index: Path) -> None:
    items = [*TEXTS, "a\x00"]
    rows = score_items(index, items, 9.0, features=OWN, label="spam", top=3)
    assert [row.item for row in rows] == [1, 4, 7]


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({}, "give total_budget_s"),
        ({"total_budget": 1.0}, "give total_budget_s"),
        ({"total_budget_s": -1.0}, "total_budget_s is -1.0"),
        ({"total_budget_s": 1.0, "label": "spam"}, "go together"),
        ({"total_budget_s": 1.0, "label": "eggs", "top": 1}, "no class 'eggs'"),
        ({"total_budget_s": 1.0, "workers": 0}, "workers is 0"),
        ({"total_budget_s": 1.0, "workers": 2}, "index as a file"),
    ],
)
def test_score_items_refuses_terms(terms: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        list(score_items(make_index(), [HAM], features=OWN, **terms))  # type: ignore[arg-type]


def test_score_items_refuses_an_index_without_models() -> None:
    bare = Index.from_candidates([[1.0]], [0.5], (1, 2))
    with pytest.raises(BadIndexFile, match="without models"):
        list(score_items(bare, [HAM], 1.0))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_budget_begins_when_all_is_loaded_and_the_first_item_read(
    index: Path, tmp_path: Path, workers: int
) -> None:
    slow, budget_s = tmp_path / "slow.py", 1.5
    slow.write_text(f"import time\n\ntime.sleep({budget_s})\n" + OWN[0].read_text())

    def items() -> Iterator[str]:
        time.sleep(budget_s)
        yield from TEXTS * 3

    rows = score_items(
        index, items(), budget_s, features=[slow], count=450, workers=workers
    )
    assert all(row.features for row in rows)  # the prior needs none


def test_several_workers_answer_as_one_does(index: Path) -> None:
    items = [*TEXTS, b"x", HAM]
    alone, many = (
        [
            (row.item, row.label, row.features, row.error)
            for row in score_items(index, items, 60.0, features=OWN, workers=workers)  # type: ignore[arg-type]
        ]
        for workers in (1, 2)
    )
    assert alone == many


def test_a_process_that_is_killed_changes_no_answer(index: Path) -> None:
    items = TEXTS * 8
    rows = score_items(index, items, 60.0, features=OWN, workers=2)
    found = [next(rows)]
    # others left by earlier tests may be among them; joblib has a copy of loky
    loky = [one for one in active_children() if type(one).__module__[:5] == "loky."]
    own = [one.pid for one in loky if one.pid]
    assert len(own) >= 2
    for pid in own:
        os.kill(pid, signal.SIGKILL)
    found += rows
    assert [row.item for row in found] == [*range(len(items))]
    assert {row.error for row in found} == {None}
