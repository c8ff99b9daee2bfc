"""Functions that read a request's headers and query; invalid values raise BadInput."""

import re
from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from urllib.parse import parse_qsl

from polydom.features.errors import BadInput

Headers = Iterable[tuple[bytes, bytes]]
# A host name or address, optionally with a port (RFC 9110, 7.2); IPv6 zones and escaped
# characters are not accepted.
_HOST = re.compile(
    r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*\])(?::[0-9]{0,5})?"
)
# Headers that proxies add.
_VIA = (b"forwarded", b"via", b"x-real-ip")
_IN_UTF8 = ("application/json", "text/plain")
_UTF8 = ("utf-8", "utf8", "us-ascii", "ascii")


def read_query(query: bytes) -> dict[str, str]:
    """Return the parameters of a query string as a dictionary.

    Raises BadInput if a name occurs twice, or if the query is not ASCII.
    """
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True)
    except UnicodeDecodeError as error:
        raise BadInput("the query is not ASCII; escape it with %") from error
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        name = next(name for name in names if names.count(name) > 1)
        raise BadInput(f"query: {name[:80]!r} is given twice")
    return found


def model_in(query: bytes) -> str | None:
    """Return the parameter `model` of a query string, or None if it is absent."""
    return read_query(query).get("model") if b"model" in query else None


def only_model_in(query: bytes) -> str | None:
    """Return the parameter `model` of a query string, or None if it is absent.

    Raises BadInput if the query has any other parameter.
    """
    return only_in(query, ("model",)).get("model")


def only_in(query: bytes, names: Sequence[str]) -> dict[str, str]:
    """Return the parameters of a query; raise BadInput if one is not in `names`."""
    found = read_query(query)
    other = next((name for name in found if name not in names), None)
    if other is not None:
        known = " and ".join(map(repr, names))
        verb = "is" if len(names) == 1 else "are"
        raise BadInput(
            f"query: {other[:80]!r} is unknown; only {known} {verb} read here"
        )
    return found


def flag_in(query: dict[str, str], name: str) -> bool:
    """Return the parameter `name`, true or false; False if it is absent."""
    value = query.get(name, "false").lower()
    if value not in ("true", "false"):
        raise BadInput(f"query: {name} is {value[:40]!r}; true or false is needed")
    return value == "true"


def only_header(headers: Headers, name: bytes) -> str | None:
    """Return a header's value, or None if the header is absent.

    Raises BadInput if the header occurs twice (RFC 9110, 5.3).
    """
    found = [value for own, value in headers if own == name]
    if len(found) > 1:
        raise BadInput(f"the header {name.decode()} is given twice")
    return found[0].decode("latin-1").strip(" \t") if found else None


def content_type_in(headers: Headers) -> str:
    """Return the content type in lower case, without parameters; "" if it is absent.

    Other types of JSON, such as "text/json", become "application/json". Raises BadInput
    for JSON or text whose charset is not UTF-8.
    """
    value = only_header(headers, b"content-type") or ""
    kind, _, parameters = value.partition(";")
    kind = kind.strip().lower()
    if kind == "text/json" or kind.endswith("+json"):
        kind = "application/json"
    for parameter in parameters.split(";") if kind in _IN_UTF8 else ():
        name, _, given = parameter.partition("=")
        charset = given.strip(' \t"').lower()
        if name.strip().lower() == "charset" and charset not in _UTF8:
            raise BadInput(f"charset {charset[:40]!r} is not read; send UTF-8")
    return kind


def type_and_budget_in(headers: Headers) -> tuple[str, str | None]:
    """Return the content type, and the text of `x-budget-ms` (None if absent)."""
    return content_type_in(headers), only_header(headers, b"x-budget-ms")


def host_in(headers: Headers) -> str | None:
    """Return the host that a request was sent to, without its port.

    Returns None if the host is absent, invalid or repeated. Also returns None if a
    proxy passed the request on, because the proxy may have written any host.
    """
    found = [value for name, value in headers if name == b"host"]
    host = _HOST.fullmatch(found[0].decode("latin-1")) if len(found) == 1 else None
    proxied = any(
        name in _VIA or name.startswith(b"x-forwarded-") for name, _ in headers
    )
    return None if host is None or proxied else host[1].strip("[]")


def is_this_machine(host: str) -> bool:
    """Return True if a host is `localhost` or a loopback address."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a name, which may belong to any machine
        return False
