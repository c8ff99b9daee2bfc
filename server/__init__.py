"""Answers inside a time budget, over HTTP.

What is offered is imported when it is first asked for, so that the commands that serve
nothing do not wait for the HTTP framework.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .app import create_app
    from .batch.batch_plan import BatchPlan
    from .client.aio import AsyncClient
    from .client.sync import Client
    from .offline_scoring.score_items import score_items
    from .offline_scoring.scorer import Scorer
    from .settings import Settings

__all__ = [
    "AsyncClient",
    "BatchPlan",
    "Client",
    "Scorer",
    "Settings",
    "create_app",
    "score_items",
]

_LAZY = {
    "AsyncClient": ".client.aio",
    "BatchPlan": ".batch.batch_plan",
    "Client": ".client.sync",
    "Scorer": ".offline_scoring.scorer",
    "Settings": ".settings",
    "create_app": ".app",
    "score_items": ".offline_scoring.score_items",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
