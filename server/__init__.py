"""The server, which answers requests over HTTP and gRPC within a time budget."""

from typing import TYPE_CHECKING

from polydom.lazy import offer

if TYPE_CHECKING:
    from .app import create_app as create_app
    from .batch.batch_plan import BatchPlan as BatchPlan
    from .client.aio import AsyncClient as AsyncClient
    from .client.sync import Client as Client
    from .offline_scoring.score_items import score_items as score_items
    from .offline_scoring.scorer import Scorer as Scorer
    from .settings import Settings as Settings

# A name's module is imported when the name is first used, so that commands that do not
# serve start without the HTTP framework.
__all__, __getattr__, __dir__ = offer(
    __name__,
    {
        "AsyncClient": ".client.aio",
        "BatchPlan": ".batch.batch_plan",
        "Client": ".client.sync",
        "Scorer": ".offline_scoring.scorer",
        "Settings": ".settings",
        "create_app": ".app",
        "score_items": ".offline_scoring.score_items",
    },
)
