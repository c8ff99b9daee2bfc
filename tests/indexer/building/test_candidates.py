"""Budgets in another unit than seconds are noticed, and nothing else is."""

import logging
from pathlib import Path

import msgspec
import numpy as np
import pytest

from polydom.indexer import build
from polydom.indexer.building.candidates import say_odd_budgets, say_slow_features
from polydom.indexer.building.project import Project
from tests.support.builds import projects

CURVES = np.array([[1e-5, 0.0], [1e-5, 1e-8]])
SIZES = 10.0, 1000.0


@pytest.mark.parametrize(
    ("budgets", "said"),
    [
        (
            (1.0, 20.0),
            "search.budgets is [1, 20], in seconds, and feature sets cost 0.01 to "
            "0.02 ms: every set costs less than all budgets, so only the best of all "
            "is kept; did you mean [0.001, 0.02]?",
        ),
        (
            (0.001, 0.02),
            "search.budgets is [0.001, 0.02], in seconds, and feature sets cost 0.01 "
            "to 0.02 ms: every set costs less than all budgets, so only the best of "
            "all is kept",
        ),
        (
            (1e-8, 1e-6),
            "search.budgets is [1e-08, 1e-06], in seconds, and feature sets cost 0.01 "
            "to 0.02 ms: no budget buys a feature, so the prior always answers",
        ),
        ((1e-8, 1e-5), None),
        ((2e-5, 1.0), None),
        ((1.5e-5, 1.6e-5), None),
    ],
)
def test_what_suits_no_set_is_said(
    budgets: tuple[float, float], said: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    say_odd_budgets(budgets, CURVES, SIZES, in_seconds=True)
    assert caplog.messages == ([] if said is None else [said])


def test_money_is_not_taken_for_milliseconds(caplog: pytest.LogCaptureFixture) -> None:
    say_odd_budgets((1.0, 20.0), CURVES, SIZES, in_seconds=False)
    (said,) = caplog.messages
    assert "2e-05: every set" in said
    assert "mean" not in said


def test_features_that_no_budget_buys_are_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    costs = {"size": 1e-5, "lite0_1": 0.002, "lite0_2": 0.0071}
    say_slow_features(costs, 0.0071, in_seconds=True)
    assert caplog.messages == []
    say_slow_features(costs, 0.002, in_seconds=True)
    say_slow_features(costs, 0.0015, in_seconds=False)
    assert caplog.messages == [
        "search.budgets ends at 0.002, in seconds, and these features cost more, even "
        "for the smallest item: 'lite0_2' (0.0071); they are left out",
        "search.budgets ends at 0.0015, and these features cost more, even for the "
        "smallest item: 'lite0_1' (0.002), 'lite0_2' (0.0071); they are left out",
    ]


def test_a_build_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = projects.texts(tmp_path)
    project = Project.load(folder / "PROJECT.toml")
    for budgets, said in (
        ([1.0, 20.0], "did you mean [0.001, 0.02]?"),
        ([1e-9, 2e-9], "the prior always answers"),
    ):
        search = msgspec.structs.replace(project.search, budgets=budgets)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            build(msgspec.structs.replace(project, search=search))
        assert said in caplog.text
    assert "for the smallest item: 'text_length' (" in caplog.text
