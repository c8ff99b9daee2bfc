"""The offline build, and the index it makes.

`Index` and `Candidate` are light; the rest is imported when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .index import Candidate, Index

if TYPE_CHECKING:
    from .builder import build
    from .fitting import fit_schedule
    from .lattice import search_lattice
    from .project import Project
    from .schedule import Schedule

__all__ = [
    "Candidate",
    "Index",
    "Project",
    "Schedule",
    "build",
    "fit_schedule",
    "search_lattice",
]

_MODULES = {
    "Project": "project",
    "Schedule": "schedule",
    "build": "builder",
    "fit_schedule": "fitting",
    "search_lattice": "lattice",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f".{_MODULES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
