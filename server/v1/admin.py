"""What only the operator may ask: `POST /v1/admin/reload`."""

from collections.abc import Callable

from fastapi import Request, Response

from ..http.bearer_tokens import Tokens
from ..http.headers import only_model_in
from ..http.reply import json_reply
from ..runtime.repository import Repository

RELOAD = "/v1/admin/reload"


class Admin:
    """Reloads at the request of whoever has one of the tokens.

    Attributes
    ----------
    notify_others
        Called after a reload that went well; makes other processes follow.
    """

    def __init__(self, repository: Repository, tokens: Tokens) -> None:
        self._repository = repository
        self._tokens = tokens
        self.notify_others: Callable[[], object] = bool

    async def reload(self, request: Request) -> Response:
        """Load one model's file again, or all; say then what is served."""
        self._tokens.check(request.headers.raw)
        await self._repository.reload(only_model_in(request.scope["query_string"]))
        self.notify_others()
        return json_reply(self._repository.facts())
