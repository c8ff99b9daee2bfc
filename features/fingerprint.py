"""Fingerprints: hashes that show if a feature has changed since an index was built.

A fingerprint is the same in every process, on every machine and in every version of
Python. The path of a file and the names of polydom's modules do not change it.
"""

import functools
import hashlib
import inspect
import linecache
import os
import re
import types
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from .errors import BadFeature
from .extract import with_needs
from .feature import Feature, Node
from .own_modules import is_library, own_source
from .syntax import DECORATORS, Statement, Syntax, is_ours, parse, source_file

ATOMS = frozenset((str, bytes, bool, int, float, complex, type(None), type(...)))
SEQUENCES, SETS = (list, tuple), (set, frozenset)
# Modules of Python whose objects show their whole state in `repr`, such as dates. The
# `repr` of other objects may be their address in memory.
TELLING = frozenset(
    ("array", "builtins", "collections", "datetime", "decimal", "fractions", "uuid")
)
ADDRESS = " at 0x"
# Where an object lists its attributes: a dataclass, a struct of msgspec, a named tuple,
# any other object.
FIELDS = ("__dataclass_fields__", "__struct_fields__", "_fields", "__dict__")
LONG = 200  # characters; the hash of a longer text replaces the text


def fingerprint(feature: Feature) -> str:
    """Return a hash of all that a feature's values depend on: SHA-256, hexadecimal.

    For the functions of the feature and of its steps, the hash covers:

    * the statements of its file that the function needs, directly or not;
    * each of the user's own modules that these statements import, directly or not;
    * plain data in captured variables, defaults and global variables: numbers, texts,
      containers, arrays;
    * names of installed libraries, but not their code;
    * the author's `version`.

    Checksums of declared `files` are kept apart (`declared_files.py`). Raises
    BadFeature if a source cannot be read, or if a function without `version` and
    `files` holds an object that is neither code nor plain data, such as an estimator.
    """
    return _Parts(feature).digest()


def unsteady(one: Feature, other: Feature) -> list[str]:
    """Return the names of global variables that differ between two loads of a feature.

    `one` and `other` are the same feature, from two loads of its file.
    """
    first, second = _Parts(one).variables, _Parts(other).variables
    return [name for name in sorted(first) if first[name] != second.get(name)]


class _Opaque(Exception):
    """Raised for a value that is neither code nor plain data."""


class _Parts:
    """The parts of a feature from which its fingerprint is computed.

    `statements` has the digests of all statements that the functions need. `modules`
    has the digests of the user's own modules. `variables` maps names of global
    variables to their plain data as text. `nodes` has a line of text for each step and
    for the feature.
    """

    def __init__(self, feature: Feature) -> None:
        self.statements: set[str] = set()
        self.modules: set[str] = set()
        self.variables: dict[str, str] = {}
        self._seen: set[tuple[int, str]] = set()  # files, and names taken from them
        self._texts: dict[int, str] = {}  # by identity
        self._kept: list[Any] = []  # kept alive: Python reuses identities
        self._folder = ""
        nodes = [*with_needs([feature]), feature]
        self.nodes = [
            f"{node.kind} {[nodes.index(need) for need in node.needs]} "
            f"{node.version} {self._function(feature.name, node)}"
            for node in nodes
        ]

    def digest(self) -> str:
        variables = [f"{name}={text}" for name, text in sorted(self.variables.items())]
        parts = [*self.nodes, *sorted(self.statements), *sorted(self.modules)]
        text = "\n".join([*parts, *variables])
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def _function(self, feature: str, node: Node) -> str:
        try:
            return self._text_of(node.function)
        except (_Opaque, RecursionError) as error:
            if node.version:
                return "told by its version"
            if node.files:
                return "told by its files"
            what = error if isinstance(error, _Opaque) else "values in very many others"
            raise BadFeature(
                f"feature {feature!r} uses {what}, of which nothing tells whether it "
                "is still the same when the index is served; give the feature, or the "
                'step that uses it, a version, as in @feature(version="1"), and '
                "another whenever it changes, or the files that it is made of, as in "
                '@feature(files=["model.bin"])'
            ) from None

    def _text_of(self, value: Any) -> str:
        """Return a value as text, and add the statements of functions and classes."""
        if type(value) in ATOMS:
            return self._without_folder(repr(value))
        if id(value) not in self._texts:
            self._kept.append(value)
            self._texts[id(value)] = "again"  # found by a value that contains itself
            try:
                text = self._text_of_parts(value)
            except _Opaque:
                del self._texts[id(value)]
                raise
            if len(text) > LONG:
                text = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
            self._texts[id(value)] = text
        return self._texts[id(value)]

    def _text_of_parts(self, value: Any) -> str:
        kind = type(value)
        if kind in SEQUENCES and ATOMS.issuperset(map(type, value)):
            return self._without_folder(repr(value))  # a fast path: there may be many
        if kind in SEQUENCES:
            return f"{kind.__name__}[{','.join(map(self._text_of, value))}]"
        if kind is dict:  # keep the order: a feature may iterate over it
            return f"{{{','.join(map(self._text_of, value.items()))}}}"
        if kind in SETS:
            return f"{kind.__name__}({','.join(sorted(map(self._text_of, value)))})"
        if isinstance(value, np.ndarray | np.generic):
            return self._array(np.asarray(value))
        if isinstance(value, re.Pattern):
            return f"pattern({value.pattern!r},{value.flags})"
        if isinstance(value, PurePath):
            return self._without_folder(str(value))
        return self._code(value) or self._object(value)

    def _without_folder(self, text: str) -> str:
        if not self._folder:
            return text
        return text.replace(self._folder + os.sep, "").replace(self._folder, ".")

    def _array(self, array: np.ndarray) -> str:
        if array.dtype.fields or array.dtype.hasobject:  # their bytes may be addresses
            return f"array({array.dtype.descr},{self._text_of(array.tolist())})"
        data = hashlib.sha256(array.tobytes()).hexdigest()
        return f"array({array.dtype.str},{array.shape},{data})"

    def _code(self, value: Any) -> str:
        if isinstance(value, types.ModuleType):
            return f"module({_first(value.__name__)})"
        if isinstance(value, types.MethodType):
            return self._text_of([value.__func__, value.__self__])
        if isinstance(value, functools.partial):
            return self._text_of([value.func, value.args, value.keywords])
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, types.FunctionType):
            return self._plain_function(value)
        if (inner := inspect.getattr_static(value, "__wrapped__", None)) is not None:
            return f"wrapper({type(value).__name__},{self._text_of(inner)})"
        name = getattr(value, "__name__", None)
        if callable(value) and isinstance(name, str):  # compiled from C or Cython
            owner = self._text_of(getattr(value, "__self__", None))
            return f"compiled({_first(value.__module__)},{name},{owner})"
        return ""

    def _plain_function(self, value: types.FunctionType) -> str:
        if is_library(value.__globals__.get("__name__", "")):
            return f"function({_first(value.__module__)},{value.__qualname__})"
        if not self._needs(value):
            raise BadFeature(
                f"the source of {value.__qualname__} cannot be read; define it in a "
                "file"
            )
        held = [value.__defaults__, value.__kwdefaults__, *_closure(value)]
        return f"function({value.__qualname__},{self._text_of(held)})"

    def _class(self, value: type) -> str:
        if is_library(value.__module__):
            return f"class({_first(value.__module__)},{value.__qualname__})"
        for member in vars(value).values():
            if isinstance(member, types.FunctionType) and self._needs(member):
                break
        return f"class({value.__qualname__})"

    def _object(self, value: Any) -> str:
        kind = type(value)
        if is_library(kind.__module__):
            text = repr(value) if _first(kind.__module__) in TELLING else ""
            if not text or ADDRESS in text:
                raise _Opaque(f"a {kind.__qualname__}")
            return self._without_folder(text)
        for names in FIELDS:
            if hasattr(value, names):
                break
        else:
            raise _Opaque(f"a {kind.__qualname__}")
        state = [(n, getattr(value, n, None)) for n in sorted(getattr(value, names))]
        return f"object({self._class(kind)},{self._text_of(state)})"

    def _needs(self, function: types.FunctionType) -> bool:
        """Add the statement that defines a function, and all that the function needs.

        Returns False if the source of the function cannot be read.
        """
        scope, code = function.__globals__, function.__code__
        module = scope.get("__name__", "")
        ours = is_ours(module)
        if ours:
            syntax = _syntax_of_ours(module)
        else:
            linecache.checkcache(code.co_filename)
            lines = linecache.getlines(code.co_filename, scope)
            syntax = parse("".join(lines), scope.get("__package__") or "")
        statement = syntax and syntax.at(code.co_firstlineno)
        if syntax is None or statement is None:
            return False
        names = self._take(syntax, statement, ours=ours)
        if ours:  # their variables never change
            return True
        if not self._folder and "__file__" in scope:
            self._folder = str(Path(scope["__file__"]).absolute().parent)
        for name in sorted(names & scope.keys()):
            if not name.startswith("__"):
                self._variable(name, scope[name], defined=name in syntax.binding)
        return True

    def _variable(self, name: str, value: Any, *, defined: bool) -> None:
        """Add the value of a global variable, if it is plain data.

        `defined` is True if statements of the file define the variable. A value that is
        not plain data is then ignored, since these statements are hashed. Otherwise
        _Opaque is raised.
        """
        if defined and callable(value):
            return
        try:
            self.variables.setdefault(name, self._text_of(value))
        except (_Opaque, RecursionError) as error:
            if not defined:
                raise _Opaque(f"the variable {name}, which holds {error}") from None

    def _take(self, syntax: Syntax, first: Statement, *, ours: bool) -> set[str]:
        """Add a statement and all statements that it needs; return all names in them.

        `ours` is True if the file is part of polydom.
        """
        names: set[str] = set()
        stars = syntax.binding.get("*", ())
        left = [first, *(syntax.statements[place] for place in stars)]
        self._kept.append(syntax)
        while left:
            statement = left.pop()
            self.statements.add(statement.digest)
            for module, name in statement.imports:
                if is_ours(module):
                    self._import_ours(module, name)
                elif not ours and not is_library(module):
                    sources = own_source(module), own_source(f"{module}.{name}")
                    self.modules.update(filter(None, sources))
            for name in statement.mentions:
                names.add(name)
                if (id(syntax), name) not in self._seen:
                    self._seen.add((id(syntax), name))
                    places = syntax.binding.get(name, ())
                    left += [syntax.statements[place] for place in places]
        return names

    def _import_ours(self, module: str, name: str) -> None:
        """Add the statements that define a name in one of polydom's modules."""
        syntax = None if name in DECORATORS else _syntax_of_ours(module)
        if syntax and (id(syntax), name) not in self._seen:
            self._seen.add((id(syntax), name))
            for place in syntax.binding.get(name, ()):
                self._take(syntax, syntax.statements[place], ours=True)


def _closure(function: types.FunctionType) -> Iterator[Any]:
    """Yield the captured variables of a function, and the function that it wraps."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # the variable has no value yet
            continue
    yield vars(function).get("__wrapped__")


def _first(module: Any) -> str:
    """Return the top-level package of a module; a library may move inner modules."""
    return module.partition(".")[0] if isinstance(module, str) else "builtins"


@functools.lru_cache(maxsize=256)
def _syntax_of_ours(module: str) -> Syntax | None:
    file = source_file(module)
    if file is None:
        return None
    is_package = Path(file).stem == "__init__"
    package = module if is_package else module.rpartition(".")[0]
    return parse("".join(linecache.getlines(file)), package)
