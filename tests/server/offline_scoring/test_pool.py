"""Items answered by several processes, one of which plans."""

import multiprocessing
from pathlib import Path

import pytest

from polydom.features.errors import WorkerLost
from polydom.server import score_items
from tests.support.served import FEATURES_FILE, HAM, SPAM, save_index

OWN = [FEATURES_FILE]
TEXTS = [HAM, SPAM, "lunch?"] * 50


@pytest.mark.jit
def test_several_workers_answer_as_one_does(tmp_path: Path) -> None:
    index = save_index(tmp_path)
    items = [*TEXTS, b"x", HAM]
    alone, many = (
        [
            (row.item, row.label, row.features, row.error)
            for row in score_items(index, items, 60.0, features=OWN, workers=workers)  # type: ignore[arg-type]
        ]
        for workers in (1, 2)
    )
    assert alone == many


@pytest.mark.jit
def test_a_process_that_is_killed_is_told_of(tmp_path: Path) -> None:
    index = save_index(tmp_path)
    others = multiprocessing.active_children()
    items = TEXTS * 8
    rows = score_items(index, items, 60.0, features=OWN, workers=2)
    assert next(rows).item == 0
    own = [one for one in multiprocessing.active_children() if one not in others]
    assert own
    for process in own:
        process.kill()
    with pytest.raises(WorkerLost, match=r"^scoring: .*`--resume`"):
        list(rows)
