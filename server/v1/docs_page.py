"""`/docs`: a page that shows the OpenAPI document, and holds nothing else.

It asks nobody but this server, and works where there is no other: its script and its
style are in it, and the browser is told to run no others. The document itself is
fetched with the token that is typed, so the page needs none.
"""

import base64
import hashlib
import re
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

DOCS = "/docs"


def _hash_of(page: str, tag: str) -> str:
    """Write what a policy says to allow the one element of this name."""
    (content,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


_PAGE = Path(__file__).with_name("docs.html").read_text("utf-8")
_HEADERS = {
    "content-security-policy": "; ".join(
        (
            "default-src 'none'",
            f"script-src {_hash_of(_PAGE, 'script')}",
            f"style-src {_hash_of(_PAGE, 'style')}",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    ),
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


async def show_docs(request: Request) -> Response:
    """Give the page."""
    return Response(_PAGE, media_type="text/html", headers=_HEADERS)
