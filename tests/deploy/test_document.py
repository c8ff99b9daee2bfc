"""Pages on deploying name values, files, lines and keys that there are."""

import re
import tomllib
from typing import Any

import msgspec
import yaml

from polydom.features.fetches.load import CONNECTORS
from polydom.indexer.building.project import Project
from tests.support.documents import blocks
from tests.support.kubernetes.manifests import CHART, DEPLOY
from tests.support.pages import read
from tests.support.places import DOCS, ROOT

KUBERNETES = read("how-to/kubernetes.md")
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
PAGES = sorted((DOCS / "how-to").glob("*.md"))
SECTIONS = {one.name: one.type for one in msgspec.structs.fields(Project)}


def has(values: Any, name: str) -> bool:
    first, _, rest = name.partition(".")
    if not isinstance(values, dict) or first not in values:
        return False
    return not rest or not values[first] or has(values[first], rest)


def test_values_are_those_of_the_chart() -> None:
    groups = "|".join(name for name, value in VALUES.items() if isinstance(value, dict))
    named = set(re.findall(rf"\b(?:{groups})\.[a-zA-Z]\w*", KUBERNETES))
    assert len(named) > 5
    for name in named:
        assert has(VALUES, name), name
    for setting in re.findall(r"--set ([\w.]+)=", KUBERNETES):
        assert has(VALUES, setting), setting


def test_files_are_there() -> None:
    text = "\n".join(page.read_text("utf-8") for page in PAGES)
    files = set(re.findall(r"(?<![\w./])deploy/[\w./-]*\w", text))
    assert {"deploy/kserve-example.yaml", "deploy/polydom.service"} <= files
    for file in files:
        assert (ROOT / file).exists(), file


def test_lines_are_those_of_the_unit() -> None:
    unit = (DEPLOY / "polydom.service").read_text()
    rows = re.findall(r"^\| (`.*?) \|", read("how-to/systemd.md"), re.MULTILINE)
    assert len(rows) > 6
    for code in re.findall(r"`([^`]+)`", " ".join(rows)):
        assert code in unit, code


def test_files_of_configuration_can_be_read() -> None:
    text = "\n".join(page.read_text("utf-8") for page in PAGES)
    for language, written in blocks(text):
        if language == "yaml":
            assert yaml.safe_load(written)
        if language == "toml":
            for name, part in tomllib.loads(written).items():
                msgspec.convert(part, form_of(name, part))


def form_of(name: str, part: Any) -> Any:
    """Type of a table of PROJECT.toml, or of a file of fetches."""
    for kind, (terms, _) in CONNECTORS.items():
        if isinstance(part, dict) and kind in part:
            return terms
    return SECTIONS[name]
