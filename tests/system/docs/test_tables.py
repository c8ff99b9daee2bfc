"""reference/tables.md: each example is read as the page says."""

import re
import tomllib
from pathlib import Path

import pyarrow as pa
import pytest

from polydom.features.tables.column_kinds import ColumnTerms, read_column
from polydom.indexer.building.data.read_items import load_data
from polydom.indexer.building.project import Project
from tests.support.pages import blocks, read

PAGE = read("reference/tables.md")


def examples(number: int) -> list[str]:
    """Cells that an item of the list of kinds shows, up to its last colon."""
    (item,) = re.findall(rf"^{number}\. (.*?)[;.]\n", PAGE, re.MULTILINE | re.DOTALL)
    cells = re.findall(r"`([^`]+)`", item.split(":", 1)[1].split(". ")[0])
    assert len(cells) > 2
    return cells


@pytest.mark.parametrize(
    ("number", "kind"), [(1, "number"), (3, "number"), (4, "date")]
)
def test_examples_are_read_as_the_page_says(number: int, kind: str) -> None:
    for cell in examples(number):
        found = read_column("x", pa.array([cell, "NA"]), ColumnTerms())
        assert (found.kind, found.missing().tolist()) == (kind, [False, True])


def test_the_project_shown_puts_one_column_right(tmp_path: Path) -> None:
    (shown,) = blocks("reference/tables.md", "toml")
    rows = "post code,x,label\n01234,1,a\n98765,2,b\n"
    (tmp_path / "rows.csv").write_text(rows)
    project = {"data": {"table": "rows.csv"}, **tomllib.loads(shown)}
    dataset = load_data(Project.from_mapping(project, folder=tmp_path))
    assert dataset.items[0].payload == {"post code": "01234", "x": 1}
