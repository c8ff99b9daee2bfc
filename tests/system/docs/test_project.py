"""reference/project.md: every key, and examples that are projects."""

import re
import tomllib

import msgspec
import pytest

from polydom.features.networks.terms import NetworkTerms
from polydom.indexer.building.project import Project
from polydom.indexer.building.project_tables.cluster import Cluster
from polydom.indexer.building.project_tables.costs import Costs
from polydom.indexer.building.project_tables.data import Data
from polydom.indexer.building.project_tables.exits import ExitTerms
from polydom.indexer.building.project_tables.features import Columns, Features
from polydom.indexer.building.project_tables.fetches import FetchTerms
from polydom.indexer.building.project_tables.quality import Quality
from polydom.indexer.building.project_tables.search import Search
from tests.support.pages import blocks, first_cells, read

PAGE = "reference/project.md"
SECTIONS: dict[str, type[msgspec.Struct]] = {
    "`[data]`": Data,
    "`[features]`": Features,
    "`[[features.columns]]`": Columns,
    "`[[features.networks]]`": NetworkTerms,
    "`[fetches.NAME]`": FetchTerms,
    "`[quality]`": Quality,
    "`[search]`": Search,
    "`[costs]`": Costs,
    "`[exits]`": ExitTerms,
    "`[cluster]`": Cluster,
}


def section(title: str) -> str:
    (found,) = re.findall(
        rf"^##+ {re.escape(title)}\n(.*?)(?=^##+ |\Z)",
        read(PAGE),
        re.MULTILINE | re.DOTALL,
    )
    return str(found)


@pytest.mark.parametrize("title", SECTIONS)
def test_every_key_is_there_with_its_default(title: str) -> None:
    fields = msgspec.structs.fields(SECTIONS[title])
    text = section(title)
    assert first_cells(text) == [field.encode_name for field in fields]
    for field in fields:
        if isinstance(field.default, int | float | str):
            (default,) = re.findall(
                rf"^\| `{field.name}` \| [^|]* \| `([^`]*)`", text, re.MULTILINE
            )
            assert tomllib.loads(f"key = {default}") == {"key": field.default}


def test_every_other_key_of_a_project_has_a_section_or_a_row() -> None:
    rows = first_cells(section("Above the first section"))
    titled = re.findall(r"^## `\[(\w+)(?:\.NAME)?\]`", read(PAGE), re.MULTILINE)
    assert {*rows, *titled} == set(Project.__struct_fields__) - {"folder"}


@pytest.mark.parametrize("example", blocks(PAGE, "toml"))
def test_examples_are_projects(example: str) -> None:
    Project.from_mapping(tomllib.loads(example))
