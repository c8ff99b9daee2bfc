"""Fingerprints: whether a feature is still the one that an index was built with."""

import dataclasses
import functools
import hashlib
import inspect
import re
import textwrap
import types
from collections.abc import Iterator, Mapping, Set
from typing import Any

import numpy as np

from .errors import BadFeature
from .registry import Feature, Step


def fingerprint(feature: Feature) -> str:
    """Hash all that a feature's values depend on: sha256, in hexadecimal.

    Covered are the sources of its function, of its steps and of the functions of the
    same module that these call, the constants they refer to, closures, defaults and
    parameters such as vocabularies. Other modules count by name only: record the
    versions of libraries beside it. Objects other than numbers, texts, containers,
    arrays, patterns and dataclasses count by their type's name.

    Raises
    ------
    BadFeature
        If a function's source cannot be read.
    """
    digest = hashlib.sha256()
    for part in parts(feature, {}):
        digest.update(f"{len(part)}:".encode() + part)
    return digest.hexdigest()


def parts(value: Any, seen: dict[int, tuple[int, Any]]) -> Iterator[bytes]:
    """Everything that distinguishes a value, depth first; cycles end in a number.

    `seen` holds by identity what has been begun, and keeps it alive.
    """
    if id(value) in seen:
        yield str(seen[id(value)][0]).encode()
        return
    yield type(value).__name__.encode()
    if isinstance(value, str | bytes | int | float | None):
        yield repr(value).encode()
        return
    seen[id(value)] = len(seen), value
    match value:
        case Step() | Feature():
            inner: list[Any] = [value.kind, value.function, *value.needs]
        case _ if hasattr(value, "__wrapped__"):
            inner = [value.__wrapped__]
        case type():
            inner = [name_of(value), *members_of(value)]
        case types.FunctionType():
            inner = [source_of(value), value.__defaults__, value.__kwdefaults__]
            inner += [cell.cell_contents for cell in value.__closure__ or ()]
            inner += used_globals(value)
        case Mapping():
            inner = [part for pair in value.items() for part in pair]
        case Set():
            inner = sorted(value, key=repr)
        case tuple() | list():
            inner = list(value)
        case np.ndarray():
            inner = [value.dtype.str, value.shape, value.tobytes()]
        case re.Pattern():
            inner = [value.pattern, value.flags]
        case functools.partial():
            inner = [value.func, value.args, value.keywords]
        case _ if dataclasses.is_dataclass(value):
            fields = [getattr(value, field.name) for field in dataclasses.fields(value)]
            inner = [type(value), *fields]
        case _:
            inner = [name_of(value)]
    for part in inner:
        yield from parts(part, seen)


def used_globals(function: types.FunctionType) -> list[Any]:
    """Collect what a function's code, or code nested in it, refers to in its module.

    Functions and classes of other modules count by name, those of its own by source.
    """
    found: list[Any] = []
    for name in sorted(names_in(function.__code__)):
        value = function.__globals__.get(name)
        if isinstance(value, types.FunctionType | type):
            same = value.__module__ == function.__module__
            found.append(value if same else name_of(value))
        elif value is not None:
            found.append(value)
    return found


def names_in(code: types.CodeType) -> set[str]:
    """Names that some code, or code nested in it, may look up."""
    nested = (part for part in code.co_consts if isinstance(part, types.CodeType))
    return set(code.co_names).union(*map(names_in, nested))


def members_of(value: type) -> list[Any]:
    """List what a class defines itself, by name, without what Python adds."""
    members = []
    for name, member in sorted(vars(value).items()):
        member = inspect.unwrap(getattr(member, "fget", member))
        if not isinstance(member, types.FunctionType):
            if not name.startswith("__"):
                members.append(member)
        elif member.__code__.co_filename != "<string>":  # a dataclass's __init__
            members.append(member)
    return members


def source_of(value: types.FunctionType) -> str:
    """Source text of a function, without the indentation of its place."""
    try:
        return textwrap.dedent(inspect.getsource(value))
    except (OSError, TypeError) as error:
        raise BadFeature(
            f"the source of {name_of(value)} cannot be read; define it in a file"
        ) from error


def name_of(value: Any) -> str:
    """Give the qualified name of a value, or of its type where it has none."""
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"
