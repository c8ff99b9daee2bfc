"""Items answered by several processes, one of which plans."""

import os
import signal
from multiprocessing import active_children
from pathlib import Path

from polydom.server import score_items
from tests.support.served import FEATURES_FILE, HAM, SPAM, save_index

OWN = [FEATURES_FILE]
TEXTS = [HAM, SPAM, "lunch?"] * 50


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


def test_a_process_that_is_killed_changes_no_answer(tmp_path: Path) -> None:
    index = save_index(tmp_path)
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
