"""The terms of a file of fetches: what each takes, its default and what it means."""

import inspect
from collections.abc import Iterator
from math import inf
from typing import Any, get_type_hints

import msgspec

from polydom.features.fetches.fetch import RANGES, fetch
from polydom.features.fetches.load import CONNECTORS
from polydom.features.fetches.terms import Terms
from tools.generated_parts import table

from .project_keys import HEAD, attributes, default_of, toml, values

WHOLE = ("batch", "at_once", "width")
# What arguments of the decorator take that are no numbers
TAKES = {
    "key": "list of texts",
    "columns": "list of texts",
    "kind": '`"text"`, `"image"`',
    "name": "text",
    "close": "async function",
}
# Arguments of which some are given, for records or for other items
EITHER = ("key", "columns", "kind", "width")


def parts() -> dict[str, str]:
    """A table of the terms of all sources, of each source, and of the decorator."""
    tables = {kind: table(HEAD, rows(form)) for kind, (form, _) in CONNECTORS.items()}
    return {
        "all": table(HEAD, rows(Terms)),
        **tables,
        "decorator": table(HEAD, arguments()),
    }


def rows(form: type[Terms]) -> Iterator[tuple[str, str, str, str]]:
    """A row for each term of a form that is no term of all forms with its default."""
    hints, told = get_type_hints(form), attributes(form)
    fields = msgspec.structs.fields(Terms) if form is not Terms else ()
    common = {field.encode_name: default_of("", field) for field in fields}
    for field in msgspec.structs.fields(form):
        name = field.encode_name
        if common.get(name) != default_of(name, field):
            takes = number(name) or ", ".join(values(hints[name]))
            yield f"`{name}`", takes, default_of(name, field), told[name]


def arguments() -> Iterator[tuple[str, str, str, str]]:
    """A row for each argument of the decorator."""
    told = attributes(fetch)
    for name, one in inspect.signature(fetch).parameters.items():
        takes = number(name) or TAKES[name]
        shown = "" if name in EITHER else default(one.default)
        yield f"`{name}`", takes, shown, told[name]


def number(name: str) -> str:
    """What a term takes that is a number; "" for another."""
    if name not in RANGES:
        return ""
    least, most = RANGES[name]
    until = "" if most == inf else f", at most {most:g}"
    kind = "whole number" if name in WHOLE else "number"
    return f"{kind} at least {least:g}{until}"


def default(value: Any) -> str:
    """A default of an argument; nothing where what it does tells."""
    return "" if value is None else f"`{toml(value)}`"
