"""What only the operator may ask: `POST /v1/admin/reload`."""

import logging
from collections.abc import Callable

from fastapi import Request, Response

from ..http.headers import only_model_in
from ..http.tokens import Tokens
from ..runtime.repository import Repository
from ..schema.predict import encode

RELOAD = "/v1/admin/reload"

log = logging.getLogger("polydom")


class Admin:
    """Reloads on request.

    Parameters
    ----------
    repository
        What is reloaded.
    tokens
        One of which is asked for.

    Attributes
    ----------
    notify_others
        Called after a reload that went well; makes other processes follow.
    """

    def __init__(self, repository: Repository, tokens: Tokens) -> None:
        self._repository = repository
        self._tokens = tokens
        self.notify_others: Callable[[], None] = _nobody

    async def reload(self, request: Request) -> Response:
        """Load one model's file again, or all; say then what is served."""
        self._tokens.check(request.headers.raw)
        await self._repository.reload(only_model_in(request.scope["query_string"]))
        self.notify_others()
        body = encode(self._repository.facts())
        return Response(body, media_type="application/json")


def _nobody() -> None:
    """Tell nobody: there is one process."""
