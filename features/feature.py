"""Steps and features: named functions that say what they need.

A feature turns an item, or the results of steps, into a fixed number of columns. A
step prepares what several features need (decode, tokenise), and runs once per item.
There is no global registry: a decorated function *is* its step or feature.
"""

import functools
import inspect
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, get_args, overload

from .errors import BadFeature
from .items import Kind

Function = Callable[..., Any]
Fails = Literal["refuse", "without"]


@dataclass(frozen=True, eq=False)
class Node:
    """A step or a feature. Calling it calls the function that it was made of."""

    # Name of the function, unless another was given. Features that are used together
    # have different names.
    name: str
    kind: Kind  # Kind of the items that the function works on
    # Steps whose results the function receives, in order; a function without needs
    # receives the item's payload
    needs: tuple["Step", ...]
    function: Function  # The function itself, which must not change its arguments
    # Constant costs by unit, such as `{"s": 0.002}` or `{"usd": 22.78}`. A feature with
    # declared seconds is not measured. Steps that take a text out of a record are the
    # only steps with declared costs; they are measured as well.
    declared: Mapping[str, float] = field(default_factory=dict, kw_only=True)
    # Version given by the author, for parts that the code does not show, such as a
    # fitted estimator.
    # A server refuses an index that was built with another version.
    version: str = field(default="", kw_only=True)
    # Paths of files that the function reads, by the names that the author gave. A
    # server refuses an index that was built with other files.
    files: Mapping[str, Path] = field(default_factory=dict, kw_only=True)

    def __call__(self, *inputs: Any) -> Any:
        """Call the function with `inputs`, and return its result."""
        return self.function(*inputs)


@dataclass(frozen=True, eq=False)
class Step(Node):
    """Preparation that several features share, such as decoding an image."""


@dataclass(frozen=True, eq=False)
class FetchedStep(Step):
    """A vector that a fetch of the step's name brings for an item.

    Its function receives the vector that `Item.brought` has, and returns a copy.
    """

    width: int = field(kw_only=True)  # Numbers in the vector


@dataclass(frozen=True, eq=False)
class Feature(Node):
    """A named extractor of a fixed number of columns.

    The function returns a one-dimensional array of numbers, or anything of which
    `np.asarray` makes one.
    """

    # True if NaN is allowed, for a missing value, as in features of a record's columns
    missing: bool = False
    # What a server does if the feature fails on an item: it refuses the item, or
    # answers without the feature
    fails: Fails = "refuse"


class StepTerms(TypedDict, total=False):
    """Keyword arguments of `step`."""

    kind: Kind | None
    needs: Sequence[Step]
    version: str
    files: Sequence[str | os.PathLike[str]]


class FeatureTerms(StepTerms, total=False):
    """Keyword arguments of `feature`."""

    name: str | None
    declared: Mapping[str, float] | None
    fails: Fails


@overload
def step(function: Function, /, **terms: Unpack[StepTerms]) -> Step: ...
@overload
def step(**terms: Unpack[StepTerms]) -> Callable[[Function], Step]: ...
def step(
    function: Function | None = None,
    /,
    *,
    kind: Kind | None = None,
    needs: Sequence[Step] = (),
    version: str = "",
    files: Sequence[str | os.PathLike[str]] = (),
) -> Step | Callable[[Function], Step]:
    """Make a step of a function; use it as a decorator.

    Parameters
    ----------
    kind
        Kind of items: "image", "text" or "record". By default the kind of `needs`.
    needs
        Steps whose results the function receives, in order. Without needs, the
        function receives the item's payload.
    version
        Any text. Change it if the step's results change but its code does not: for
        example, if the step uses an estimator that was fitted again.
    files
        Paths of files that the step reads, when it is loaded or while it runs. Relative
        paths begin in the folder of the file that defines the step. A server refuses an
        index that was built with other contents of these files.

    Raises
    ------
    BadFeature
        If neither `kind` nor `needs` is given, if kinds differ, or if the function
        takes more or fewer arguments than it will receive.

    Examples
    --------
    >>> @step(kind="text")
    ... def words(text):
    ...     return text.split()
    >>> words("one two")
    ['one', 'two']
    """

    def decorate(function: Function) -> Step:
        name = name_of(function)
        where = f"step {name!r}"
        return Step(
            name,
            kind_of(where, function, kind, needs),
            tuple(needs),
            function,
            version=version,
            files=paths_of(where, function, files),
        )

    return decorate if function is None else decorate(function)


@overload
def feature(function: Function, /, **terms: Unpack[FeatureTerms]) -> Feature: ...
@overload
def feature(**terms: Unpack[FeatureTerms]) -> Callable[[Function], Feature]: ...
def feature(
    function: Function | None = None,
    /,
    *,
    kind: Kind | None = None,
    needs: Sequence[Step] = (),
    name: str | None = None,
    declared: Mapping[str, float] | None = None,
    version: str = "",
    files: Sequence[str | os.PathLike[str]] = (),
    fails: Fails = "refuse",
) -> Feature | Callable[[Function], Feature]:
    """Make a feature of a function; use it as a decorator.

    Parameters
    ----------
    kind, needs, version, files
        As for `step`.
    name
        Name of the feature; None for the function's name.
    declared
        Constant costs by unit, such as ``{"s": 0.002}``, each 0 or more and finite. A
        feature with declared seconds is not measured.
    fails
        What happens to an item on which the feature fails. A feature fails if it, or a
        step that it needs, raises an error, or if a value is infinite, or is NaN in a
        column that had a number for every item of the build. "refuse": a server answers
        with an error, and a build stops. "without": a server answers by the best set
        without the feature that fits into the rest of the budget, and a build takes the
        values for missing. The error is logged in both cases.

    Raises
    ------
    BadFeature
        As for `step`, and if a declared cost is out of range, or `fails` is unknown.

    Examples
    --------
    >>> @feature(kind="text")
    ... def length(text):
    ...     return [len(text)]
    >>> length.name, length("four")
    ('length', [4])
    """

    def decorate(function: Function) -> Feature:
        known = name or name_of(function)
        where = f"feature {known!r}"
        for unit, cost in (declared or {}).items():
            if not 0 <= cost < math.inf:
                raise BadFeature(
                    f"{where} declares {cost!r} {unit}; 0 or more is needed"
                )
        if fails not in get_args(Fails):
            raise BadFeature(
                f'{where} has fails={fails!r}; "refuse" or "without" is needed'
            )
        return Feature(
            known,
            kind_of(where, function, kind, needs),
            tuple(needs),
            function,
            declared=dict(declared or {}),
            version=version,
            files=paths_of(where, function, files),
            fails=fails,
        )

    return decorate if function is None else decorate(function)


def name_of(function: Function) -> str:
    """Return a function's name; raise BadFeature for an object without a name."""
    name = getattr(function, "__name__", None)
    if not isinstance(name, str):
        raise BadFeature(f"{function!r} has no name of its own; give one with name=")
    return name


def paths_of(
    where: str, function: Function, files: Sequence[str | os.PathLike[str]]
) -> dict[str, Path]:
    """Return the paths of the files that a function declares, by their names.

    Relative paths begin in the folder of the function's file, or in the working folder
    if the function is in no file. Raises BadFeature if `files` is a single text.
    `where` begins the message.
    """
    if isinstance(files, str):
        raise BadFeature(f"{where} has files={files!r}; a list of paths is needed")
    while isinstance(function, functools.partial):
        function = function.func
    scope = getattr(inspect.unwrap(function), "__globals__", {})
    file = scope.get("__file__")
    folder = Path(file).absolute().parent if isinstance(file, str) else Path.cwd()
    return {os.fspath(name): folder / name for name in files}


def kind_of(
    where: str, function: Function, kind: Kind | None, needs: Sequence[Step]
) -> Kind:
    """Return the kind of items that a function works on.

    Raises BadFeature if kinds differ, or if the function does not take one argument for
    each of `needs`. `where` begins the message.
    """
    strangers = [need for need in needs if not isinstance(need, Step)]
    if strangers:
        raise BadFeature(f"{where} needs {strangers[0]!r}, which is no step")
    kinds = {need.kind for need in needs} | ({kind} if kind else set())
    if len(kinds) != 1:
        raise BadFeature(
            f"{where} mixes kinds of items: {', '.join(sorted(kinds))}"
            if kinds
            else f"{where} states neither kind= nor needs="
        )
    count = len(needs) or 1
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError as error:
        raise BadFeature(
            f"{where} will receive {count} argument{'s' * (count > 1)}: {error}"
        ) from error
    return kinds.pop()
