"""The offline build, and the index it makes.

What is offered is imported when it is first asked for, so that a command which only
says what it can do does not wait for compilers and learners.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .building.build import build
    from .building.measure_project import measure_project
    from .building.project import Project
    from .estimators.classifier import BudgetClassifier
    from .estimators.regressor import BudgetRegressor
    from .index.index import Candidate, Index
    from .set_search.poly_dom import search

__all__ = [
    "BudgetClassifier",
    "BudgetRegressor",
    "Candidate",
    "Index",
    "Project",
    "build",
    "measure_project",
    "search",
]

_LAZY = {
    "BudgetClassifier": ".estimators.classifier",
    "BudgetRegressor": ".estimators.regressor",
    "Candidate": ".index.index",
    "Index": ".index.index",
    "Project": ".building.project",
    "build": ".building.build",
    "measure_project": ".building.measure_project",
    "search": ".set_search.poly_dom",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
