"""Find an object's class by module and name, without importing its library."""

import sys
from collections.abc import Iterable
from typing import Any


def find_class(thing: Any, known: Iterable[str]) -> str | None:
    """Return the "module.Class" in `known` that is an object's class, or None."""
    kind = type(thing)
    for full in known:
        module, _, name = full.rpartition(".")
        # If a module was not imported, the thing is not an object of its classes.
        own = sys.modules.get(module)
        if name == kind.__name__ and getattr(own, name, None) is kind:
            return full
    return None


def named(thing: Any, known: Iterable[str]) -> str:
    """Return the full name of an object's class, for an error message.

    If `known` has a class of the same name from another module, ", which is not" and
    that class are added.
    """
    kind = type(thing)
    full = f"{kind.__module__}.{kind.__name__}"
    for other in known:
        if other.rpartition(".")[2] == kind.__name__:
            return f"{full}, which is not {other},"
    return full


def short(known: Iterable[str]) -> list[str]:
    """Return the names of classes without their modules."""
    return [full.rpartition(".")[2] for full in known]
