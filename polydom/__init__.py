"""Answer predictions inside a time budget, with the most accurate model that fits.

What is offered here is what most people need, imported when it is first asked for. The
rooms have the rest: `polydom.features`, `polydom.models`, `polydom.indexer` and
`polydom.server`. ``python -m polydom`` is the command ``polydom``.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polydom.features.errors import PolydomError
    from polydom.features.feature import feature, step
    from polydom.indexer import BudgetClassifier, BudgetRegressor, Index, Project, build
    from polydom.models import compile
    from polydom.server import AsyncClient, BatchPlan, Client, Scorer, score_items

__all__ = [
    "AsyncClient",
    "BatchPlan",
    "BudgetClassifier",
    "BudgetRegressor",
    "Client",
    "Index",
    "PolydomError",
    "Project",
    "Scorer",
    "__version__",
    "build",
    "compile",
    "feature",
    "score_items",
    "step",
]

_LAZY = {
    "AsyncClient": "server",
    "BatchPlan": "server",
    "BudgetClassifier": "indexer",
    "BudgetRegressor": "indexer",
    "Client": "server",
    "Index": "indexer",
    "PolydomError": "features",
    "Project": "indexer",
    "Scorer": "server",
    "build": "indexer",
    "compile": "models",
    "feature": "features",
    "score_items": "server",
    "step": "features",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version("polydom")
    if name in _LAZY:
        return getattr(import_module(f".{_LAZY[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
