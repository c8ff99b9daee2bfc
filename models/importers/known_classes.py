"""Classes by module and name, found without importing their libraries."""

import sys
from collections.abc import Iterable
from typing import Any


def find_class(thing: Any, known: Iterable[str]) -> str | None:
    """Find a thing's own class in `known`, such as "sklearn.svm.LinearSVC"."""
    kind = type(thing)
    for full in known:
        module, _, name = full.rpartition(".")
        # A module that was not imported has no objects.
        own = sys.modules.get(module)
        if name == kind.__name__ and getattr(own, name, None) is kind:
            return full
    return None


def named(thing: Any, known: Iterable[str]) -> str:
    """Name a thing's class, and a known class of the same name that it is not."""
    kind = type(thing)
    full = f"{kind.__module__}.{kind.__name__}"
    for other in known:
        if other.rpartition(".")[2] == kind.__name__:
            return f"{full}, which is not {other},"
    return full


def short(known: Iterable[str]) -> list[str]:
    """Return the names of classes without their modules."""
    return [full.rpartition(".")[2] for full in known]
