"""reference/features.md: features and learners by name, and a feature of one's own."""

import json
from pathlib import Path

import pytest

from polydom.features.loading import load_features
from polydom.models.selection.learners import LEARNERS
from polydom.models.selection.portfolio import NUMBERS, SERVABLE
from tests.support.pages import blocks, first_cells, read
from tests.support.processes.commands import run

PAGE = read("reference/features.md")


def test_features_are_those_that_the_command_lists(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, printed, _ = run(capsys, "features", "--json")
    listed = [row["name"] for row in json.loads(printed)]
    assert first_cells(PAGE.split("## Steps")[0]) == listed


def test_learners_are_those_that_have_names() -> None:
    learners, raced = PAGE.split("## Learners")[1].split("## What `auto` races")
    known = [*LEARNERS["classes"], *LEARNERS["regression"]]
    assert first_cells(learners) == known
    for name in (*SERVABLE, *NUMBERS):
        assert f"| {name} | " in raced


def test_the_feature_of_its_own_is_one(tmp_path: Path) -> None:
    (code,) = blocks("reference/features.md", "python")
    (tmp_path / "mine.py").write_text(code)
    (shouting,) = load_features([], [tmp_path / "mine.py"])
    assert shouting("AbcD") == [0.5]
