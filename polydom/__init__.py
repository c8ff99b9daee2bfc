"""Answer predictions inside a time budget, with the most accurate model that fits.

This package offers the few names that most programs need, and imports each name at its
first use. The packages `polydom.features`, `polydom.models`, `polydom.indexer` and
`polydom.server` offer all other names. ``python -m polydom`` runs the command
``polydom``.
"""

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from .lazy import offer

if TYPE_CHECKING:
    from polydom.features.errors import PolydomError as PolydomError
    from polydom.features.feature import feature as feature
    from polydom.features.feature import step as step
    from polydom.indexer import BudgetClassifier as BudgetClassifier
    from polydom.indexer import BudgetRegressor as BudgetRegressor
    from polydom.indexer import Index as Index
    from polydom.indexer import Project as Project
    from polydom.indexer import build as build
    from polydom.models import compile as compile
    from polydom.server import AsyncClient as AsyncClient
    from polydom.server import BatchPlan as BatchPlan
    from polydom.server import Client as Client
    from polydom.server import Scorer as Scorer
    from polydom.server import score_items as score_items

_names, _find, __dir__ = offer(
    __name__,
    {
        "AsyncClient": ".server",
        "BatchPlan": ".server",
        "BudgetClassifier": ".indexer",
        "BudgetRegressor": ".indexer",
        "Client": ".server",
        "Index": ".indexer",
        "PolydomError": ".features",
        "Project": ".indexer",
        "Scorer": ".server",
        "build": ".indexer",
        "compile": ".models",
        "feature": ".features",
        "score_items": ".server",
        "step": ".features",
    },
)
__all__ = ["__version__", *_names]


def __getattr__(name: str) -> Any:
    return version("polydom") if name == "__version__" else _find(name)
