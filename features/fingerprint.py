"""Fingerprints: whether a feature is still the one that an index was built with.

A fingerprint is the same in every process, on every machine and in every version of
Python: no address, no order of a set, no place of a file and no name of a module of
polydom's or of the user's own enters it.
"""

import contextlib
import copyreg
import enum
import functools
import hashlib
import inspect
import logging
import os
import re
import threading
import types
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import numpy as np

from .errors import BadFeature
from .feature import Feature, Node
from .own_modules import OURS, Home, absolute, home_of, is_ours, own_source
from .sources import members_of, module_of, name_of, names_in, slots_of, source_of

PLAIN = frozenset(
    (str, bytes, bytearray, bool, int, float, complex, type(None), type(...), range)
)
# What no value of a feature depends on: by its type alone.
INERT = (
    logging.Logger,
    os._Environ,
    type(threading.Lock()),
    type(threading.RLock()),
)
DEEPEST = 20  # sets within objects within sets ...


def fingerprint(feature: Feature) -> str:
    """Hash all that a feature's values depend on: sha256, in hexadecimal.

    Covered are the sources of its function, of its steps and of the functions and
    classes of the same file that these use, and all global objects, closures, defaults
    and parameters that they refer to: numbers, texts, containers, arrays, patterns,
    and any other object by its attributes or, of an installed library, by what it
    pickles. Modules of the user's own count by their whole source, with those that
    they import. Installed libraries count by name only: record their versions beside
    it. What is read from files at run time is not covered.

    Raises
    ------
    BadFeature
        If a function's source cannot be read, or an object has no state to be told by.
    """
    return _walked(feature.name, feature).digest.hexdigest()


def unsteady(one: Feature, other: Feature) -> list[str]:
    """List the globals that differ between two loadings of a feature's file."""
    first, second = _walked(one.name, one).used, _walked(other.name, other).used
    return [
        name
        for name in sorted(first.keys() & second.keys())
        if _walked(one.name, first[name]).digest.digest()
        != _walked(one.name, second[name]).digest.digest()
    ]


def _walked(feature: str, value: Any) -> "Walk":
    walk = Walk(feature)
    walk.add(value)
    return walk


class Part(NamedTuple):
    """A part of a value, and the global variable that led to it."""

    value: Any
    where: str


class Walk:
    """Hashes a value and all that it refers to, depth first; cycles end in a number.

    Parameters
    ----------
    feature
        Whose fingerprint it is, for messages.
    depth
        Of sets within sets, whose members are hashed apart and sorted.

    Attributes
    ----------
    used
        The global variables met, by name.
    """

    def __init__(self, feature: str, depth: int = 0) -> None:
        self.feature = feature
        self.depth = depth
        self.digest = hashlib.sha256()
        self.used: dict[str, Any] = {}
        # by identity what has been begun; kept alive, since identities come again
        self._seen: dict[int, tuple[int, Any]] = {}
        self._folder = ""
        self._homes: dict[str, tuple[Home, str | None]] = {}

    def add(self, value: Any) -> None:
        """Hash a value."""
        left = [Part(value, "")]
        while left:  # no recursion: chains of objects may be longer than Python's stack
            left += reversed(self._begin(*left.pop()))

    def _begin(self, value: Any, where: str) -> list[Part]:
        """Hash the kind of a value, and return its parts, each with where it is."""
        if type(value) in PLAIN:
            self._write(type(value).__name__, self._text(value))
            return []
        if (text := _text_of(value)) and not (self._folder and self._folder in text):
            self._write(type(value).__name__, text)
            return []
        if id(value) in self._seen:
            self._write("again", str(self._seen[id(value)][0]))
            return []
        self._seen[id(value)] = len(self._seen), value
        kind, parts = (
            self._of_code(value)
            or self._of_atom(value)
            or self._of_collection(value)
            or ("object", [type(value), *self._state_of(value, where)])
        )
        self._write(kind, str(len(parts)))
        return [p if isinstance(p, Part) else Part(p, where) for p in parts]

    def _write(self, *words: str) -> None:
        for word in words:
            data = word.encode("utf-8", "surrogatepass")
            self.digest.update(b"%d:" % len(data) + data)

    def _text(self, value: Any) -> str:
        """Text of a plain value; of a path beside the feature's file, from there."""
        if self._folder and isinstance(value, str):
            if value == self._folder:
                return repr(".")
            return repr(value.removeprefix(self._folder + os.sep))
        return repr(value)

    def _of_code(self, value: Any) -> tuple[str, list[Any]] | None:
        """Parts of a function, a class or what wraps them; None of anything else."""
        match value:
            case Node():
                return "step", [value.kind, value.function, *value.needs]
            case types.FunctionType():
                return "function", self._of_function(value)
            case type():
                return "class", self._of_class(value)
            case types.ModuleType():
                return "module", [self._of_module(value.__name__)]
            case types.MethodType():
                return "method", [value.__func__, value.__self__]
            case types.BuiltinFunctionType():
                bound = value.__self__
                owner = [] if isinstance(bound, types.ModuleType) else [bound]
                return "builtin", [name_of(value), *owner]
            case _ if type(value).__name__ == "cython_function_or_method":
                return "builtin", [name_of(value)]  # its attributes are addresses
            case staticmethod() | classmethod():
                return type(value).__name__, [value.__func__]
            case property():
                return "property", [value.fget]
            case functools.cached_property():
                return "property", [value.func]
            case functools.partial():
                return "partial", [value.func, value.args, value.keywords]
            case _ if _is_of_typing(value):
                return "typing", [re.sub(r"\w+\.", "", repr(value))]
            case _ if inspect.getattr_static(value, "__wrapped__", None) is not None:
                return "wrapper", [name_of(value), value.__wrapped__]
        return None

    def _of_atom(self, value: Any) -> tuple[str, list[Any]] | None:
        """Parts of a value that holds no others; None of anything else."""
        match value:
            case enum.Enum():
                return "enum", [type(value), value.name]
            case np.generic():
                return None  # some are Python's numbers too
            case str() | bytes() | int() | float():
                base: Any = next(b for b in type(value).__mro__ if b in PLAIN)
                return "plain", [type(value), base.__repr__(value)]
            case re.Pattern():
                return "pattern", [value.pattern, value.flags]
            case PurePath():
                return "path", [str(value)]
            case np.dtype():
                return "dtype", [repr(value.descr if value.fields else value.str)]
            case _ if isinstance(value, INERT):
                return "inert", [name_of(value)]
        return None

    def _of_collection(self, value: Any) -> tuple[str, list[Any]] | None:
        """Parts of an array or a container; None of anything else."""
        match value:
            case np.ndarray() | np.generic():
                parts = [value.dtype, value.shape, *_content(value)]
            case dict():  # its order counts: a feature may go through it
                parts = [part for pair in dict.items(value) for part in pair]
            case types.MappingProxyType():
                return "mapping", [dict(value)]
            case set() | frozenset():
                parts = sorted(map(self._apart, value))
            case tuple() | list():
                parts = list(value)
            case _:
                return None
        if module_of(type(value)) in ("builtins", "numpy"):
            return type(value).__name__, parts
        more = [_steady(getattr(value, "__dict__", {}), value)]
        more += [getattr(value, "default_factory", None)]
        return "subclass", [type(value), *more, *parts]

    def _apart(self, value: Any) -> bytes:
        """Hash a member of a set by itself: they come in any order."""
        if self.depth == DEEPEST:
            raise BadFeature(
                f"feature {self.feature!r} uses sets nested deeper than {DEEPEST}"
            )
        walk = Walk(self.feature, self.depth + 1)
        walk._folder, walk._homes = self._folder, self._homes
        walk.add(value)
        return walk.digest.digest()

    def _home(self, module: str) -> tuple[Home, str | None]:
        """Whose a module is, and the hash of its source if the user's own."""
        if module not in self._homes:
            home = home_of(module)
            source = own_source(module) if home == "read" else None
            self._homes[module] = home, source
        return self._homes[module]

    def _of_module(self, module: str) -> str:
        source = self._home(module)[1]
        return source or (OURS if is_ours(module) else module)

    def _of_function(self, value: types.FunctionType) -> list[Any]:
        """Source, or name of a library's; and all that it holds, whoever's it is."""
        held: list[Any] = [value.__defaults__, value.__kwdefaults__]
        for cell in value.__closure__ or ():
            with contextlib.suppress(ValueError):  # it is empty
                held.append(cell.cell_contents)
        held.append(vars(value).get("__wrapped__"))
        home, source = self._home(value.__globals__.get("__name__", ""))
        if home == "library":
            return [name_of(value), *held]
        if home == "read":
            return [value.__qualname__, source, *held]
        file = value.__globals__.get("__file__")
        self._folder = self._folder or (
            str(Path(file).absolute().parent) if file else ""
        )
        return [source_of(value), *held, *self._used_by(value)]

    def _used_by(self, value: types.FunctionType) -> list[Any]:
        """Global variables, and modules of the user's own, that a function names."""
        imported, names = names_in(value.__code__)
        found: list[Any] = []
        for name in sorted(names):
            if name in value.__globals__ and not name.startswith("__"):
                part = value.__globals__[name]
                self.used.setdefault(name, part)
                found += [name, Part(part, name)]
        package = value.__globals__.get("__package__") or ""
        modules = sorted(absolute(name, level, package) for name, level in imported)
        sources = [self._home(module)[1] for module in modules]
        return found + [source for source in sources if source]

    def _of_class(self, value: type) -> list[Any]:
        """Name of a class; of one that is walked, what it and its bases define."""
        home, source = self._home(module_of(value))
        if home == "library":
            return [name_of(value)]
        if home == "read":
            return [value.__qualname__, source]
        return [value.__qualname__, *value.__bases__, *members_of(value)]

    def _state_of(self, value: Any, where: str) -> list[Any]:
        """List an object's attributes; of a library's object, what it pickles.

        No code of the user's runs.
        """
        if self._home(module_of(type(value)))[0] != "library":
            held = dict(slots_of(value)) | getattr(value, "__dict__", {})
            return [_steady(held, value)]
        try:
            reduce = copyreg.dispatch_table.get(type(value))
            reduced = reduce(value) if reduce else value.__reduce_ex__(4)
        except Exception as error:  # whatever it says, it cannot be pickled
            raise BadFeature(self._unknown(value, where)) from error
        if isinstance(reduced, str):
            return [reduced]
        made, arguments, state, listed, mapped = (*reduced, None, None, None)[:5]
        items = [list(part) for part in (listed, mapped) if part is not None]
        return [made, arguments, _steady(state, value), *items]

    def _unknown(self, value: Any, where: str) -> str:
        kind = type(value).__qualname__
        what = f"the variable {where}, which holds a {kind}" if where else f"a {kind}"
        return (
            f"feature {self.feature!r} uses {what}; nothing tells whether that is "
            "still the same when the index is served. Make it in a function, under "
            "functools.cache: then the source of the function tells"
        )


def _content(value: Any) -> list[Any]:
    """Values of an array; by field, since what is between fields is anything."""
    if value.dtype.fields:
        return [np.asarray(value[name]) for name in value.dtype.names]
    return [value.tolist() if value.dtype.hasobject else value.tobytes()]


def _steady(state: Any, value: Any) -> Any:
    """Attributes by name, without what differs though the object is the same.

    Those are cached properties, scikit-learn's version, and the addresses of other
    attributes, which scikit-learn keeps, too.
    """
    if not isinstance(state, dict):
        return state
    addresses = {id(part) for part in state.values()}
    kept = {}
    for name in sorted(state, key=str):
        part = state[name]
        known = inspect.getattr_static(type(value), str(name), None)
        if not (
            isinstance(known, functools.cached_property)
            or name == "_sklearn_version"
            or (type(part) is int and part in addresses)
        ):
            kept[name] = part
    return kept


def _text_of(value: Any) -> str:
    """Write out a container of nothing but plain values; empty for anything else.

    Such ones are many and large, and Python may or may not keep equal ones once.
    """
    if type(value) in (tuple, list):
        return repr(value) if set(map(type, value)) <= PLAIN else ""
    if type(value) is dict:
        parts = map(type, (*value, *value.values()))
        return repr(value) if set(parts) <= PLAIN else ""
    if type(value) in (set, frozenset) and set(map(type, value)) <= PLAIN:
        return repr(sorted(map(repr, value)))
    return ""


def _is_of_typing(value: Any) -> bool:
    generic = isinstance(value, types.GenericAlias | types.UnionType)
    return generic or type(value).__module__ == "typing"
