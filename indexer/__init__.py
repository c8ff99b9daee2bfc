"""The offline build, and the index it makes.

`Index` and `Candidate` are light; the rest is imported when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .index import Candidate, Index

if TYPE_CHECKING:
    from .augment import swap_columns
    from .builder import build
    from .candidates import prune
    from .cells import CellLookup
    from .exact import exact_schedule
    from .fitting import fit_schedule
    from .fixed import FixedBudgetLookup, FixedSizeLookup
    from .greedy import GreedyLookup, search_greedy
    from .lattice import search_lattice
    from .lead_fitting import fit_lead_schedule
    from .lookup import Lookup
    from .project import Project
    from .schedule import LeadSchedule, Promise, Schedule
    from .searched import LatticeSearch
    from .skyline import skylines_by_envelope
    from .stages import cut_stages
    from .sweep import skylines_by_sweep

__all__ = [
    "Candidate",
    "CellLookup",
    "FixedBudgetLookup",
    "FixedSizeLookup",
    "GreedyLookup",
    "Index",
    "LatticeSearch",
    "LeadSchedule",
    "Lookup",
    "Project",
    "Promise",
    "Schedule",
    "build",
    "cut_stages",
    "exact_schedule",
    "fit_lead_schedule",
    "fit_schedule",
    "prune",
    "search_greedy",
    "search_lattice",
    "skylines_by_envelope",
    "skylines_by_sweep",
    "swap_columns",
]

_MODULES = {
    "CellLookup": "cells",
    "FixedBudgetLookup": "fixed",
    "FixedSizeLookup": "fixed",
    "GreedyLookup": "greedy",
    "LatticeSearch": "searched",
    "LeadSchedule": "schedule",
    "Lookup": "lookup",
    "Project": "project",
    "Promise": "schedule",
    "Schedule": "schedule",
    "build": "builder",
    "cut_stages": "stages",
    "exact_schedule": "exact",
    "fit_lead_schedule": "lead_fitting",
    "fit_schedule": "fitting",
    "prune": "candidates",
    "search_greedy": "greedy",
    "search_lattice": "lattice",
    "skylines_by_envelope": "skyline",
    "skylines_by_sweep": "sweep",
    "swap_columns": "augment",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f".{_MODULES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
