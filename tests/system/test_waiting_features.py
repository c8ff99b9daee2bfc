"""A feature that waits is bought after every start, since no machine waits faster."""

import csv
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from polydom.indexer import build
from tests.support.processes.servers import ask, serving
from tests.support.waiting import once_of_several

pytestmark = [
    pytest.mark.jit,
    pytest.mark.skipif(sys.platform != "linux", reason="waits are known on Linux"),
]

STARTS = 5
PROJECT = """\
seed = 1
workers = 1
exits = "off"

[data]
table = "orders.csv"

[features]
files = ["mine.py"]

[learner]
name = "tree"
max_depth = 3

[costs]
items = 10
repeats = 3
"""
MINE = """\
import time

from polydom.features import feature


@feature(kind="record")
def history(record):
    time.sleep(0.012)
    return [record["a"]]
"""


def save_project(folder: Path) -> None:
    draw = np.random.default_rng(0)
    with (folder / "orders.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["a", "label"])
        for value in draw.normal(size=120).round(3).tolist():
            rows.writerow([value, "late" if value > 0 else "early"])
    (folder / "mine.py").write_text(MINE)
    (folder / "PROJECT.toml").write_text(PROJECT)


def test_a_feature_that_waits_is_bought_with_40_ms_after_every_start(
    tmp_path: Path,
) -> None:
    save_project(tmp_path)
    build(tmp_path / "PROJECT.toml", output=tmp_path / "orders.pdx")
    body = json.dumps({"record": {"a": 1.0}, "budget_ms": 40}).encode()
    for _ in range(STARTS):
        options = ("--features", str(tmp_path / "mine.py"))
        with serving(tmp_path / "orders.pdx", *options) as (_, port):
            _, facts = ask(port, "GET", "/v1/index")
            factor = facts["rescaling"]["features"]["history"]  # type: ignore[index]
            assert factor == pytest.approx(1.0, abs=0.1)

            def is_bought(port: int = port) -> bool:
                kind = {"content_type": "application/json"}
                status, answer = ask(port, "POST", "/v1/predict", body, **kind)
                assert status == 200
                return answer["features"] == ["history"]

            once_of_several(is_bought)
