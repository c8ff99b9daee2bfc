"""Reads bearer tokens (RFC 6750) from files, and checks that requests send one."""

import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from starlette.types import ASGIApp, Receive, Scope, Send

from polydom.features.errors import BadInput

from ..errors import Failure, Unauthorized
from .headers import Headers
from .reply import error_reply

# Probes need no token: operators send them, and the answers reveal nothing of models.
OPEN_PATHS = ("/livez", "/readyz", "/v2/health/live", "/v2/health/ready")
# Paths under these need an admin token.
ADMIN_PATHS = ("/v1/admin/", "/v2/repository/models/")
SHORTEST = 16
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")


def read_tokens(path: Path) -> list[str]:
    """Return the tokens in a text file: one per line, at least one.

    Empty lines and lines that begin with `#` are skipped. Raises BadInput, naming the
    file, if it cannot be read or has no token.
    """
    try:
        lines = [line.strip() for line in path.read_text("utf-8").splitlines()]
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: {error}; a text in UTF-8 is needed") from error
    tokens = [line for line in lines if line and not line.startswith("#")]
    if not tokens:
        raise BadInput(f"{path}: there is no token")
    return tokens


class Tokens:
    """A set of secret tokens; a request must send one of them.

    The constructor raises BadInput if the set is empty, or if a token has fewer than
    `SHORTEST` characters or a character that a header cannot hold.
    """

    def __init__(self, tokens: Iterable[str]) -> None:
        self._tokens = tuple(token.encode() for token in tokens)
        if not self._tokens:
            raise BadInput("there is no token")
        for number, token in enumerate(self._tokens, start=1):
            if len(token) < SHORTEST:
                raise BadInput(
                    f"token {number} has {len(token)} characters; at least {SHORTEST} "
                    "are needed"
                )
            if not _TOKEN.fullmatch(token.decode()):
                raise BadInput(
                    f"token {number} has a character that a bearer token cannot have; "
                    "letters, digits and . _ ~ + / - are allowed, and = at its end"
                )

    @classmethod
    def read(cls, path: Path) -> "Tokens":
        """Read tokens from a file; raise BadInput if there is no token or a bad one."""
        tokens = read_tokens(path)
        try:
            return cls(tokens)
        except BadInput as error:
            raise BadInput(f"{path}: {error}") from error

    def check(self, headers: Headers) -> None:
        """Raise Unauthorized unless the request has one of the tokens.

        All tokens are compared in constant time, so that nobody can guess a token
        character by character. A request with several `authorization` headers is
        refused.
        """
        given = [value for name, value in headers if name == b"authorization"]
        value = given[0].strip() if len(given) == 1 else b""
        scheme, _, token = value.partition(b" ")
        token = token.strip()
        same = [hmac.compare_digest(token, known) for known in self._tokens]
        if scheme.lower() != b"bearer" or not any(same):
            raise Unauthorized(
                "a token is needed that this server knows: 'authorization: Bearer ...'"
            )


@dataclass(frozen=True, slots=True)
class Access:
    """The tokens that callers and administrators must send.

    If callers have no tokens, every path except the administrators' paths is open.
    """

    tokens: Tokens | None = None  # Tokens for all paths except `OPEN_PATHS`
    # Tokens for the paths under `ADMIN_PATHS`; without any, nobody may use these paths
    admin: Tokens | None = None

    @classmethod
    def read(cls, tokens: Path | None, admin: Path | None) -> "Access":
        """Read the files of callers' and administrators' tokens; None means no file."""
        return cls(
            tokens=None if tokens is None else Tokens.read(tokens),
            admin=None if admin is None else Tokens.read(admin),
        )


class TokenGate:
    """ASGI middleware: passes requests with a valid token to `app`, and refuses others.

    The paths in `OPEN_PATHS` and `free` need no token. Requests to paths under
    `ADMIN_PATHS` pass, too, because `app` itself checks the administrators' tokens.
    """

    def __init__(self, app: ASGIApp, tokens: Tokens, free: Iterable[str] = ()) -> None:
        self._app = app
        self._tokens = tokens
        self._free = frozenset((*OPEN_PATHS, *free))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the application, or answer it with status 401."""
        if scope["type"] == "http" and self._asks(path_in_app(scope)):
            try:
                self._tokens.check(scope["headers"])
            except Unauthorized as error:
                # the body need not be read, because uvicorn discards it
                refused = error_reply(401, Failure(str(error), error.code))
                await refused(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _asks(self, path: str) -> bool:
        # some routes also exist with a slash at the end
        plain = path.rstrip("/") or path
        return plain not in self._free and not path.startswith(ADMIN_PATHS)


def path_in_app(scope: Scope) -> str:
    """Return a request's path without its `root_path`, as Starlette's router does."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    if root and path.startswith(root) and path[len(root) :][:1] in ("", "/"):
        return path[len(root) :]
    return path
