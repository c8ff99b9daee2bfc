"""Fetches a file whose checksum is known from an https address; only a build does."""

import hashlib
import http.client
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from polydom.features.errors import BadProject

from ...index.file.safe_write import replace_when_done
from ...progress import Progress

READ_S = 30.0  # most seconds that a server may leave a read without an answer
PART = 1 << 20  # bytes that are read at a time; progress counts these parts


def download(
    address: str,
    place: Path,
    sha256: str,
    *,
    most: int,
    what: str,
    progress: Progress,
) -> None:
    """Fetch the file at an https address to the path `place`.

    The file is written under another name. It gets its own name when it is whole, and
    only if its SHA-256 in hexadecimal is `sha256`. Certificates are checked against
    those of the system, or of the file that the variable `SSL_CERT_FILE` names.

    Raises BadProject if the address does not answer, if more than `most` bytes come, or
    if the checksum is another one. The message begins with `what`, a noun.
    """
    source = f"{what}: {_shown(address)}"
    answer = _ask(address, source)
    with closing(answer):
        length = answer.length  # None if the server does not say
        if length is not None and length > most:
            raise BadProject(f"{source} has {length:,} bytes; {most:,} is the most")
        parts = None if length is None else -(-length // PART)
        with (
            progress.stage(f"fetching {what}", parts) as on_progress,
            replace_when_done(place, durable=False) as file,
        ):
            found, done = hashlib.sha256(), 0
            for number, part in enumerate(_parts(answer, source), 1):
                done += len(part)
                if done > most:
                    raise BadProject(f"{source} has more than {most:,} bytes")
                found.update(part)
                file.write(part)
                on_progress(number)
            if length is not None and done < length:
                raise BadProject(
                    f"{source} cannot be fetched: the connection ended after {done:,} "
                    f"of {length:,} bytes"
                )
            if found.hexdigest() != sha256.lower():
                raise BadProject(
                    f"{source} has the SHA-256 {found.hexdigest()}; {sha256} is "
                    "needed, so it is another file, and is not used"
                )


def _shown(address: str) -> str:
    """Return an address without its query, which may hold a secret."""
    return address.partition("?")[0]


def _ask(address: str, source: str) -> Any:
    trusted = HTTPSHandler(context=ssl.create_default_context())
    opener = build_opener(trusted, _OnlyHttps)
    # some servers refuse the name that urllib gives itself
    request = Request(address, headers={"User-Agent": "polydom"})
    with _named(source):
        return opener.open(request, timeout=READ_S)


class _OnlyHttps(HTTPRedirectHandler):
    """Follows a redirection only to an https address."""

    def redirect_request(
        self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        """Raise URLError if the new address is no https address."""
        if urlsplit(newurl).scheme != "https":
            fp.close()
            raise URLError(f"it leads to {_shown(newurl)}, which is no https address")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _parts(answer: Any, source: str) -> Iterator[bytes]:
    while True:
        with _named(source):
            part = answer.read(PART)
        if not part:
            return
        yield part


@contextmanager
def _named(source: str) -> Iterator[None]:
    """Turn errors of a connection into BadProject with the address and a cure."""
    try:
        yield
    except (OSError, http.client.HTTPException, ValueError) as error:
        if isinstance(error, HTTPError):
            error.close()  # it holds the connection
        raise BadProject(
            f"{source} cannot be fetched: {_reason(error)}; a file that was fetched by "
            "hand may be named by its path"
        ) from None


def _reason(error: Exception) -> str:
    if isinstance(error, HTTPError):
        return f"the server answered {error.code} {error.reason}"
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted ({reason.verify_message}); the variable "
            "SSL_CERT_FILE may name a file of certificates to trust"
        )
    if isinstance(reason, TimeoutError):
        return f"nothing came for {READ_S:g} s"
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror
    return str(reason) or type(reason).__name__
