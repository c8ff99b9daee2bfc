"""The table tutorial's project: tumours, of which columns cost money."""

import csv
import itertools
import tomllib
from pathlib import Path
from typing import Any

from polydom.indexer import build
from tests.support.pages import blocks, run_python

PAGE = "tutorials/table.md"
Row = dict[str, str]


def code(name: str) -> str:
    """What the page has readers save under a name."""
    found = (text for text in blocks(PAGE, "python", "toml") if name in text[:20])
    return next(found)


GROUPS: dict[str, list[str]] = {
    group["name"]: group["columns"]
    for group in tomllib.loads(code("PROJECT.toml"))["features"]["columns"]
}
# Every way in which some groups come, and others do not.
PATTERNS = [
    groups for count in range(5) for groups in itertools.combinations(GROUPS, count)
]


def make_project(folder: Path) -> Path:
    """Do what the page says up to the build; the index."""
    run_python(code("make_rows.py"), folder)
    quick = "workers = 1\ncosts = { items = 12, repeats = 2, weights = { usd = 1 } }\n"
    project = quick + code("PROJECT.toml").partition("[costs]")[0]
    (folder / "PROJECT.toml").write_text(project)
    build(folder / "PROJECT.toml", output=folder / "rows.pdx")
    return folder / "rows.pdx"


def held_out(folder: Path) -> list[Row]:
    """The rows that the index has never seen."""
    with (folder / "held-out.csv").open() as file:
        return list(csv.DictReader(file))


def record_of(row: Row, groups: tuple[str, ...]) -> dict[str, Any]:
    """The columns of some groups; where there are none, one that holds nothing."""
    named = [name for group in groups for name in GROUPS[group]]
    return {name: float(row[name]) for name in named} or {"texture": None}
