"""What all fetches of a .toml file have in common: terms, addresses and connections."""

import asyncio
import importlib
import os
import re
import string
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

import msgspec

from ..errors import BadFetch, FetchFailed
from ..items import Kind
from .fetch import Call, Close, Columns, Fetch

Pool = TypeVar("Pool")
# A name, or an address in brackets, and a port. A password with a / that is not written
# as %2F does not look like it.
HOST = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(:\d*)?")


class Terms(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Terms of any fetch of a .toml file; those of `fetch` have the same meaning.

    Attributes
    ----------
    key
        Columns of the key, in order. By default the index says them, and those of
        Redis are in its template. `check-fetches` has no index, so it needs the key of
        all others.
    at_most_ms
        Milliseconds after which a call has failed.
    keep_s
        Seconds for which a server uses values again for the same key; 0 never does.
    batch
        Most keys in one call.
    at_once
        Most calls at the same time in each worker, and so most connections. Further
        keys wait; those of the requests with the least time go first.
    hedge
        Share of calls, at most 0.5, that a server may send a second time if they take
        longer than the others; the first answer counts. Only for calls that are safe
        to repeat: a call that writes or costs must not be hedged.
    """

    key: list[str] = []
    at_most_ms: float = 1000.0
    keep_s: float = 0.0
    batch: int = 128
    at_once: int = 64
    hedge: float = 0.0

    def check_key(self, name: str, key: Sequence[str]) -> None:
        """Raise BadFetch if an index's key is not that of the file."""
        if self.key and self.key != [*key]:
            raise BadFetch(
                f"fetch {name!r} has the key {', '.join(self.key)}; the key "
                f"{', '.join(key)} is needed, in this order"
            )

    def made(
        self,
        name: str,
        key: Columns,
        columns: Columns,
        call: Call,
        close: Close,
        connect: Callable[[Columns, Columns], Fetch] | None,
        open: Close | None = None,
        *,
        kind: Kind = "record",
        width: int = 0,
    ) -> Fetch:
        """Return a fetch with these terms."""
        return Fetch(
            name,
            key,
            columns,
            call,
            at_most_s=self.at_most_ms / 1e3,
            keep_s=self.keep_s,
            batch=self.batch,
            at_once=self.at_once,
            hedge=self.hedge,
            close=close,
            connect=connect,
            open=open,
            kind=kind,
            width=width,
        )


def filled_in(where: str, text: str) -> str:
    """Replace `$NAME` and `${NAME}` in a text by environment variables, `$$` by `$`.

    Raises BadFetch if a variable does not exist; `where` begins the message.
    """
    try:
        return string.Template(text).substitute(os.environ)
    except KeyError as error:
        raise BadFetch(
            f"{where} needs the environment variable {error.args[0]}, which is not set"
        ) from None
    except ValueError:
        raise BadFetch(
            f"{where} has a $ without the name of an environment variable; write $$ "
            "for the character itself"
        ) from None


def address_in(where: str, text: str, schemes: Sequence[str]) -> str:
    """Return an address with its environment variables filled in.

    Raises BadFetch if its scheme is none of `schemes`, or it is no address. Messages
    never show the address, which may hold a password.
    """
    address = filled_in(where, text)
    try:
        parts = urlsplit(address)
    except ValueError:  # such as a bracket that is not closed
        parts = urlsplit("")
    # PostgreSQL may have several hosts, each with a port
    hosts = parts.netloc.rpartition("@")[2].split(",")
    if parts.scheme not in schemes or not all(map(HOST.fullmatch, hosts)):
        needed = " or ".join(f"{scheme}://" for scheme in schemes)
        raise BadFetch(f"{where} is no address that begins with {needed}")
    return address


def place_of(address: str) -> str:
    """Return the host and port of an address for a message, without any password."""
    parts = urlsplit(address)
    return parts.netloc.rpartition("@")[2] or parts.path or "the default host"


def import_library(name: str, module: str, extra: str) -> Any:
    """Import a connector's library; raise BadFetch with the cure if it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        raise BadFetch(
            f"fetch {name!r} needs the library {library}: pip install "
            f"'polydom[{extra}]'"
        ) from error


class OpenedByLoop(Generic[Pool]):
    """A pool of connections that the first call in an event loop opens.

    A server loads fetches before it forks its workers, and a build runs several event
    loops: connections belong to one loop of one process.
    """

    def __init__(
        self, open_pool: Callable[[], Pool], close: Callable[[Pool], Awaitable[object]]
    ) -> None:
        self._open = open_pool
        self._close = close
        self._of: tuple[asyncio.AbstractEventLoop, Pool] | None = None

    def pool(self) -> Pool:
        """Return the pool of the running event loop."""
        loop = asyncio.get_running_loop()
        if self._of is None or self._of[0] is not loop:
            self._of = loop, self._open()
        return self._of[1]

    async def close(self) -> None:
        """Close the pool of the running event loop, if there is one."""
        if self._of is not None and self._of[0] is asyncio.get_running_loop():
            pool, self._of = self._of[1], None
            await self._close(pool)


def failed(
    name: str, place: str, error: BaseException, at_most_s: float
) -> FetchFailed:
    """Return the error for a call that a library could not carry out at `place`."""
    if isinstance(error, TimeoutError) or "Timeout" in type(error).__name__:
        why = f"no answer within {at_most_s * 1e3:g} ms"
    else:
        why = f"{type(error).__name__}: {error}"
    return FetchFailed(f"fetch {name!r}: {place}: {why}", place)
