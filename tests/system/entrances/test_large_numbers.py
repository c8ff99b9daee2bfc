"""Numbers and dates that float32 does not tell apart x every entrance."""

import csv
import json
import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from starlette.testclient import TestClient

from polydom.indexer import BudgetClassifier, build
from polydom.server.app import create_app
from tests.support.processes.commands import run
from tests.support.waiting import until_ready

ROWS, STEPS = 500, 100
PROJECT = """\
seed = 1
workers = 1

[learner]
name = "tree"

[data]
table = "rows.csv"

[costs]
items = 10
repeats = 2
"""
DATE = datetime(2024, 3, 1, 11, 59, 20)
FINE: dict[str, Callable[[int], object]] = {
    "seconds since 1970": lambda step: 1_700_000_000 + step,
    "milliseconds since 1970": lambda step: 1_700_000_000_000 + 10 * step,
    "whole": lambda step: 16_777_200 + step,
    "microseconds since 1970": lambda step: 1_550_083_467_346_370 + step,
    "days as one number": lambda step: int(
        (DATE + timedelta(days=step)).strftime("%Y%m%d")
    ),
    "degrees": lambda step: round(151.2 + step / 1e5, 5),
    "tiny": lambda step: 1e-45 * (1 + step / 1e3),
    "date": lambda step: (DATE + timedelta(seconds=step)).isoformat(),
}
DRAWN = np.random.default_rng(0).integers(0, STEPS, ROWS)


def label(step: int) -> str:
    """Stripes of ten steps, which only exact numbers tell apart."""
    return "odd" if step // 10 % 2 else "even"


@pytest.mark.parametrize("name", ["degrees", "date"])
def test_they_are_told_apart_at_every_entrance(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of = FINE[name]
    with open(tmp_path / "rows.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow([name, "label"])
        rows.writerows([of(step), label(step)] for step in DRAWN.tolist())
    (tmp_path / "PROJECT.toml").write_text(PROJECT)
    index = tmp_path / "my.pdx"
    build(tmp_path / "PROJECT.toml", output=index, cache=tmp_path / "cache")
    arguments = [index, tmp_path / "rows.csv", "--budgets", "100", "--json"]
    code, out, err = run(capsys, "evaluate", *arguments)
    assert code == 0, err
    assert json.loads(out)["budgets"][0]["quality"] > 0.99
    with TestClient(create_app([index])) as client:
        until_ready(client)
        for step in range(0, STEPS, 3):
            asked = {"record": {name: of(step)}, "budget_ms": 1000}
            answer = client.post("/v1/predict", json=asked).json()
            assert answer["label"] == label(step), answer


@pytest.mark.parametrize("name", ["microseconds since 1970", "tiny"])
def test_an_estimator_tells_them_apart(name: str) -> None:
    frame = pd.DataFrame({name: [FINE[name](step) for step in DRAWN.tolist()]})
    labels = [label(step) for step in DRAWN.tolist()]
    made = BudgetClassifier(learner="tree", search_budget_s=0.2).fit(frame, labels)
    assert made.score(frame, labels) > 0.99


def test_what_no_offset_saves_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    steps = np.arange(ROWS)
    far = np.where(steps % 2, 1_200_000_000_000, 1_700_000_000_000) + steps
    rows = "\n".join(f"{value},{value % 2}" for value in far.tolist())
    (tmp_path / "rows.csv").write_text(f"at,label\n{rows}\n")
    (tmp_path / "PROJECT.toml").write_text(PROJECT)
    with caplog.at_level(logging.WARNING):
        build(tmp_path / "PROJECT.toml", output=tmp_path / "my.pdx")
    assert "column 'at' holds 500 different numbers, of which 2" in caplog.text
