"""The offline build, and the index it makes.

`Index` and `Candidate` are light; the rest is imported when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .index.index import Candidate, Index

if TYPE_CHECKING:
    from .building.build import build
    from .building.project import Project
    from .estimators.classifier import BudgetClassifier
    from .estimators.regressor import BudgetRegressor
    from .set_search.poly_dom import search

__all__ = [
    "BudgetClassifier",
    "BudgetRegressor",
    "Candidate",
    "Index",
    "Project",
    "build",
    "search",
]

_LAZY = {
    "BudgetClassifier": ".estimators.classifier",
    "BudgetRegressor": ".estimators.regressor",
    "Project": ".building.project",
    "build": ".building.build",
    "search": ".set_search.poly_dom",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
