"""The syntax of Python files: which statements define which names.

Comments, docstrings, formatting, annotations of parameters and the messages of errors
are ignored, since no value of a feature depends on them.
"""

import ast
import functools
import hashlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

OURS = "polydom"
# Decorators that turn a function into a step or a feature and keep its values.
DECORATORS = ("feature", "step")
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Import(NamedTuple):
    """An imported module, and the name imported from it: "" for a plain `import`."""

    module: str
    name: str = ""


class Statement(NamedTuple):
    """A statement at the top level of a file."""

    digest: str  # Hash of its syntax tree
    binds: frozenset[str]  # Names that it defines or changes
    mentions: frozenset[str]  # Names that occur in it
    imports: tuple[Import, ...]  # Modules that it imports, also inside functions
    lines: tuple[int, int]  # Numbers of its first and its last line


class Syntax(NamedTuple):
    """The top-level statements of a file."""

    statements: tuple[Statement, ...]
    binding: dict[str, list[int]]  # Positions of the statements that bind a name

    def at(self, line: int) -> Statement | None:
        """Return the statement that contains the line with this number, or None."""
        for one in self.statements:
            if one.lines[0] <= line <= one.lines[1]:
                return one
        return None


@functools.lru_cache(maxsize=256)
def parse(source: str, package: str) -> Syntax | None:
    """Parse the source of a file; return None if it is not Python.

    Relative imports are resolved in `package`, which is "" for a file outside of
    packages.
    """
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):
        return None
    statements = tuple(one for node in body for one in _statements(node, package))
    binding: dict[str, list[int]] = {}
    for position, statement in enumerate(statements):
        for name in statement.binds:
            binding.setdefault(name, []).append(position)
    return Syntax(statements, binding)


def imports_in(tree: ast.AST, package: str) -> Iterator[Import]:
    """Yield all imports of a syntax tree, also those inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (Import(alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if base := absolute(node.module or "", node.level, package):
                yield from (Import(base, alias.name) for alias in node.names)
        elif isinstance(node, ast.Call) and node.args:
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if called in ("import_module", "__import__"):
                first = node.args[0]
                # the beginning of f"skimage.{module}" names the library
                if isinstance(first, ast.JoinedStr) and first.values:
                    first = first.values[0]
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    yield Import(first.value.rstrip("."))


def absolute(name: str, level: int, package: str) -> str:
    """Resolve an import with `level` leading dots; "" if it leads out of `package`."""
    if level == 0:
        return name
    try:
        return importlib.util.resolve_name("." * level + name, package)
    except ImportError:
        return ""


def is_ours(module: str) -> bool:
    """Return True if a module is part of polydom."""
    return module.partition(".")[0] == OURS


def tree_digest(tree: ast.AST, package: str = "") -> str:
    """Return a hash of a syntax tree.

    Imports of polydom's modules do not change the hash, since these modules may move.
    """
    bare = _Bare(package).visit(tree)
    return hashlib.sha256(_written(bare).encode("utf-8", "surrogatepass")).hexdigest()


def _statements(node: ast.stmt, package: str) -> Iterator[Statement]:
    """Describe a top-level statement, or each import if it imports several names."""
    parts: Iterable[ast.stmt] = [node]
    if isinstance(node, ast.Import):
        parts = [ast.Import([alias]) for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        parts = [
            ast.ImportFrom(node.module, [alias], node.level) for alias in node.names
        ]
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(one.lineno for one in decorators)])
    lines = first, node.end_lineno or node.lineno
    for part in parts:
        imports = tuple(imports_in(part, package))
        digest = tree_digest(part, package)
        yield Statement(digest, _binds(part), _names(part), imports, lines)


def _binds(node: ast.stmt) -> frozenset[str]:
    """Return the names that a statement defines, or may change.

    `WORDS.append("x")` at the top of a file changes WORDS.
    """
    if isinstance(node, DEFINITIONS):
        return frozenset([node.name])
    if isinstance(node, ast.Import | ast.ImportFrom):
        alias = node.names[0]
        return frozenset([alias.asname or alias.name.partition(".")[0]])
    if isinstance(node, ast.Assign):
        return frozenset().union(*map(_names, node.targets))
    if isinstance(node, ast.AnnAssign | ast.AugAssign):
        return _names(node.target)
    return _names(node)


def _names(tree: ast.AST) -> frozenset[str]:
    nodes = ast.walk(tree)
    return frozenset(node.id for node in nodes if isinstance(node, ast.Name))


class _Bare(ast.NodeTransformer):
    """Removes the parts of a syntax tree on which no value depends."""

    def __init__(self, package: str) -> None:
        self.package = package

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        is_docstring = isinstance(node.value, ast.Constant)
        return None if is_docstring else self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        named = ast.unparse(raised) if raised else ""
        return ast.Raise(ast.Constant(named))

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg(node.arg)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        base = absolute(node.module or "", node.level, self.package)
        return None if is_ours(base) else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        node.decorator_list = [
            one for one in node.decorator_list if _called(one) not in DECORATORS
        ]
        return self.generic_visit(node)


def _called(node: ast.expr) -> str:
    """Return the name of a decorator, which may be a call."""
    if isinstance(node, ast.Call):
        node = node.func
    return getattr(node, "attr", getattr(node, "id", ""))


def _written(node: Any) -> str:
    """Return a tree as text: unlike `ast.dump`, the same in every version of Python."""
    if isinstance(node, list):
        return f"[{','.join(map(_written, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    parts = (
        f"{name}={_written(value)}"
        for name, value in ast.iter_fields(node)
        if value is not None and value != [] and name not in ("kind", "ctx")
    )
    return f"{type(node).__name__}({','.join(parts)})"


def source_file(module: str) -> str | None:
    """Find the file of a module without importing it; None if there is no such file."""
    loaded = sys.modules.get(module)
    if loaded is not None:
        return getattr(loaded, "__file__", None)
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    return spec.origin if spec is not None and spec.has_location else None
