"""A small project of records, of which two fetches bring columns by `customer`."""

from pathlib import Path
from typing import Any

import numpy as np

from polydom.indexer.building.project import Project

CALLS = '''\
"""The project's fetches, which a build times."""

import asyncio

from polydom.features import fetch


@fetch(key=["customer"], columns=["n_orders", "mean_amount"])
async def orders(keys, left_s):
    await asyncio.sleep(0.001)
    return [{"n_orders": key % 5, "mean_amount": 3.5} for (key,) in keys]


@fetch(key=["customer"], columns=["risk"])
async def score(keys, left_s):
    if any(key % 10 == 0 for (key,) in keys):
        raise ConnectionError("refused")
    return [[0.5] for _ in keys]
'''


def terms() -> dict[str, Any]:
    """Content of the project file, which tests change."""
    return {
        "data": {"table": "table.csv", "group": "customer"},
        "fetches": {
            "orders": {
                "key": ["customer"],
                "columns": ["n_orders", "mean_amount"],
                "from": "calls.py",
                "price": {"usd": 0.002},
            },
            "score": {"key": ["customer"], "columns": ["risk"], "from": "calls.py"},
        },
        "learner": {"name": "logistic"},
        "search": {"held_out": 0.25},
        "costs": {"items": 8, "repeats": 2},
        "exits": "off",
        "workers": 1,
    }


def write_files(folder: Path, rows: int = 400) -> None:
    """Write the table and the fetches' calls.

    Of the label's three equal parts, the request brings `age`, and each fetch one.
    """
    rng = np.random.default_rng(0)
    age, n_orders, mean_amount, risk = rng.normal(size=(4, rows)).round(3)
    score = age + n_orders + risk
    label = np.where(score > 0, "good", "bad")
    lines = ["customer,age,n_orders,mean_amount,risk,label"]
    for k in range(rows):
        cells = (100 + k, age[k], n_orders[k], mean_amount[k], risk[k], label[k])
        lines.append(",".join(map(str, cells)))
    (folder / "table.csv").write_text("\n".join(lines) + "\n")
    (folder / "calls.py").write_text(CALLS)


def make_project(folder: Path, **change: Any) -> Project:
    """Write the files, and make the project; `change` replaces tables of its file."""
    write_files(folder)
    return Project.from_mapping(terms() | change, folder=folder)
