"""The keys of PROJECT.toml: what each takes, its default and what it does."""

import inspect
import json
import re
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from polydom.features.networks.terms import NetworkTerms
from polydom.indexer.building.project import Project
from polydom.indexer.building.project_tables.cluster import Cluster
from polydom.indexer.building.project_tables.costs import Costs
from polydom.indexer.building.project_tables.data import Data
from polydom.indexer.building.project_tables.exits import CONFIDENCE, ExitTerms
from polydom.indexer.building.project_tables.features import Columns, Features
from polydom.indexer.building.project_tables.fetches import FetchTerms
from polydom.indexer.building.project_tables.quality import Quality
from polydom.indexer.building.project_tables.search import Search
from polydom.indexer.building.template import template
from polydom.models.qwyc.promise import ALPHA
from tools.generated_parts import table

SECTIONS: dict[str, type[msgspec.Struct]] = {
    "top": Project,
    "data": Data,
    "features": Features,
    "columns": Columns,
    "networks": NetworkTerms,
    "fetches": FetchTerms,
    "quality": Quality,
    "search": Search,
    "costs": Costs,
    "exits": ExitTerms,
    "cluster": Cluster,
}
# Of keys that are left unset until the code finds a value for them.
DEFAULTS = {"exits.alpha": ALPHA, "exits.confidence": CONFIDENCE}
# Of those that take less than their type says.
VALUES = {
    "top.learner": "table, or a name",
    "features.columns": "tables, see below",
    "features.networks": "tables, see below",
    "search.sizes": "two numbers above 0, or two pairs of such",
    "search.budgets": "two numbers above 0",
}


def parts() -> dict[str, str]:
    """A table of each section's keys, and the file that `polydom init` writes."""
    tables = {name: table(HEAD, rows(name)) for name in SECTIONS}
    return {**tables, "template": f"```toml\n{template('images')}```"}


HEAD = ("key", "value", "default", "what")


def rows(section: str) -> Iterator[tuple[str, str, str, str]]:
    """A row for each key of a section; other sections and `folder` are no keys."""
    part = SECTIONS[section]
    hints, told = get_type_hints(part, include_extras=True), attributes(part)
    for field in msgspec.structs.fields(part):
        name = field.encode_name
        if section == "top" and (name in SECTIONS or name == "folder"):
            continue
        key = f"{section}.{name}"
        takes = VALUES.get(key) or ", ".join(values(hints[field.name]))
        yield f"`{name}`", takes, default_of(key, field), told[field.name]


def attributes(part: Any) -> dict[str, str]:
    """What a docstring says of each attribute or parameter."""
    lines = (inspect.getdoc(part) or "").partition("----------\n")[2]
    found = re.findall(r"^(\w+)\n((?: {4}.*\n?|\n(?= {4}))+)", lines, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}


def values(hint: Any) -> list[str]:
    """What a key of this type takes, in words; None is no value of a file."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _within(inner[0], inner[1])
    if origin is Literal:
        return [f"`{json.dumps(value)}`" for value in inner]
    if origin in (Union, UnionType):
        some = (one for one in inner if one not in (NoneType, msgspec.UnsetType))
        return [word for one in some for word in values(one)]
    if origin in (list, tuple):
        return [f"list of {_many(values(inner[0]))}"]
    if origin is dict:
        return [f"table of {_many(values(inner[1]))}"]
    words = {str: ["text"], float: ["number"], Any: ["value"]}
    return {**words, bool: ["`true`", "`false`"]}[hint]


def _many(words: list[str]) -> str:
    """The same of several values."""
    first, *others = (
        re.sub(r"^(text|(?:whole )?number|value|table)", r"\1s", w) for w in words
    )
    return " or ".join((first, *others))


def _within(kind: Any, limits: msgspec.Meta) -> list[str]:
    """A number, and between what it lies."""
    if kind not in (int, float):
        return values(kind)
    bounds = [
        f"{word} {limit:g}" if limit < 2**31 else "below 2^32"
        for word, limit in (
            ("above", limits.gt),
            ("at least", limits.ge),
            ("below", limits.lt),
            ("at most", limits.le),
        )
        if limit is not None
    ]
    return [f"{'whole number' if kind is int else 'number'} {', '.join(bounds)}"]


def default_of(key: str, field: Any) -> str:
    """A key's default as TOML; nothing where what it does tells, or it is needed."""
    if field.required:
        return "needed"
    default = field.default
    if default is msgspec.NODEFAULT and field.default_factory is not msgspec.NODEFAULT:
        default = field.default_factory()
    default = DEFAULTS.get(key, default)
    if default is None or default is msgspec.UNSET or default in ([], {}):
        return ""
    return f"`{toml(default)}`"


def toml(value: Any) -> str:
    """Write a value as TOML does."""
    if isinstance(value, dict):
        pairs = (f"{key} = {toml(inner)}" for key, inner in value.items())
        return f"{{ {', '.join(pairs)} }}"
    return f"{value:g}" if isinstance(value, float) else json.dumps(value)
