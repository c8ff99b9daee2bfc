"""Classes with a compiled form, known by module and name: a name says too little."""

import sys
from collections.abc import Iterable
from typing import Any


def find_class(thing: Any, known: Iterable[str]) -> str | None:
    """Find which of `known`, such as "sklearn.svm.LinearSVC", a thing's class is.

    A class of the user's may have any name, and a subclass may decide otherwise.
    """
    kind = type(thing)
    for full in known:
        module, _, name = full.rpartition(".")
        # There is no object of a class whose module has not been imported.
        own = sys.modules.get(module)
        if name == kind.__name__ and getattr(own, name, None) is kind:
            return full
    return None


def named(thing: Any, known: Iterable[str]) -> str:
    """Name a thing's class with its module; and the one that it is not, if alike."""
    kind = type(thing)
    full = f"{kind.__module__}.{kind.__name__}"
    for other in known:
        if other.rpartition(".")[2] == kind.__name__:
            return f"{full}, which is not {other},"
    return full


def short(known: Iterable[str]) -> list[str]:
    """Give the classes' names without their modules."""
    return [full.rpartition(".")[2] for full in known]
