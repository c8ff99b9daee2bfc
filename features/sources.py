"""What functions and classes are made of: their source, and the names they use."""

import dataclasses
import dis
import enum
import functools
import inspect
import linecache
import textwrap
import types
from collections.abc import Iterator, Set
from typing import Any

from .errors import BadFeature
from .own_modules import home_of, is_ours

SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType)


def source_of(function: types.FunctionType) -> str:
    """Source text of a function, without the indentation of its place."""
    code, names = function.__code__, function.__globals__
    if is_ours(names.get("__name__", "")):
        source = _own_source(code)
    else:
        linecache.checkcache(code.co_filename)
        source = _source_of_code(code, names)
    if not source:
        raise BadFeature(
            f"the source of {function.__qualname__} cannot be read; define it in a file"
        )
    return source


def _source_of_code(code: types.CodeType, names: dict[str, Any] | None = None) -> str:
    """Source text of some code; none where it is in no file.

    `inspect.getsource` would look for its module among all that are loaded, which takes
    milliseconds.
    """
    lines = linecache.getlines(code.co_filename, names)[code.co_firstlineno - 1 :]
    return textwrap.dedent("".join(inspect.getblock(lines))) if lines else ""


_own_source = functools.lru_cache(maxsize=512)(_source_of_code)  # it does not change


@functools.lru_cache(maxsize=512)
def names_in(code: types.CodeType) -> tuple[Set[tuple[str, int]], Set[str]]:
    """Modules (name, level) that some code imports, and global names that it uses.

    Code nested in it counts, too.
    """
    imported: set[tuple[str, int]] = set()
    names: set[str] = set()
    level: Any = 0
    wanted: Any = None
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            names.add(step.argval)
        elif step.opname == "IMPORT_NAME":
            imported.add((step.argval, level))
            imported |= {(f"{step.argval}.{name}", level) for name in wanted or ()}
        level, wanted = wanted, step.argval
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            nested = names_in(part)
            imported |= nested[0]
            names |= nested[1]
    return imported, names


def members_of(kind: type) -> list[Any]:
    """List what a class defines itself, by name, without what Python adds."""
    members: list[Any] = []
    enumerated = issubclass(kind, enum.Enum)
    for name, member in sorted(vars(kind).items()):
        if name == "__dataclass_fields__":
            members += [part for one in member.values() for part in _of_field(one)]
        elif isinstance(member, types.FunctionType):
            if not _is_added(name, member):
                members += [name, member]
        elif isinstance(member, SLOTS) or name.startswith("__") or name == "_abc_impl":
            continue
        elif isinstance(member, kind) and isinstance(member, enum.Enum):
            members += [name, member.value]
        elif not (enumerated and name.startswith("_")):
            members += [name, member]
    return members


def _of_field(field: Any) -> Iterator[Any]:
    """How a dataclass's field comes to its value."""
    yield field.name
    for default in (field.default, field.default_factory):
        yield None if default is dataclasses.MISSING else default


def _is_added(name: str, member: types.FunctionType) -> bool:
    """Whether Python made a method, as it does for dataclasses and named tuples."""
    inner = inspect.unwrap(member)
    if inner.__code__.co_filename.startswith("<"):
        return True
    home = home_of(member.__globals__.get("__name__", ""))
    return name.startswith("_") and home == "library"


def slots_of(value: Any) -> Iterator[tuple[str, Any]]:
    """Attributes of an object that its classes declare as slots, where set."""
    for base in type(value).__mro__:
        for name, member in vars(base).items():
            if isinstance(member, types.MemberDescriptorType):
                try:
                    yield name, member.__get__(value)
                except AttributeError:
                    continue


def name_of(value: Any) -> str:
    """Package and qualified name of a value, or of its type where it has none.

    Without the modules in between, which a library may change.
    """
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{module_of(named).partition('.')[0]}:{named.__qualname__}"


def module_of(value: Any) -> str:
    """Return the module that a class or function says it is from."""
    module = getattr(value, "__module__", None)
    return module if isinstance(module, str) else "builtins"
