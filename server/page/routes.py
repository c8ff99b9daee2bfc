"""Routes of the pages `/` and `/docs` and of their files; no token is needed."""

import gzip
from functools import cache
from pathlib import PurePath

from starlette.requests import Request
from starlette.routing import Route

from ..http.reply import Header, Reply
from .assets import KINDS, POLICY, Assets

PAGE, DOCS = "/", "/docs"
_SAFE = (
    (b"content-security-policy", POLICY.encode()),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
_GZIP = (b"content-encoding", b"gzip")
_VARY = (b"vary", b"accept-encoding")
_ASK_AGAIN = (b"cache-control", b"no-cache")
_KEEP = (b"cache-control", b"public, max-age=31536000, immutable")


def page_routes(*, with_page: bool) -> list[Route]:
    """Return the routes of `/docs`, of its files and, if `with_page`, of `/`."""
    assets = Assets()
    pages = {DOCS: "docs.html"} | ({PAGE: "index.html"} if with_page else {})
    return [
        *(
            _route(path, name, assets.page(name), _ASK_AGAIN)
            for path, name in pages.items()
        ),
        *(
            _route(f"/{assets.folder}/{name}", name, content, _KEEP)
            for name, content in assets.files.items()
        ),
    ]


def _route(path: str, name: str, content: bytes, caching: Header) -> Route:
    kind = KINDS[PurePath(name).suffix].encode()
    headers = (*_SAFE, caching, _VARY)

    @cache
    def packed() -> bytes:
        return gzip.compress(content, mtime=0)  # equal bytes from every worker

    async def give(request: Request) -> Reply:
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Reply(200, packed(), *headers, _GZIP, kind=kind)
        return Reply(200, content, *headers, kind=kind)

    return Route(path, give, methods=["GET"])
