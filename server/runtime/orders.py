"""What the operator has ordered while a server runs, for all its worker processes."""

import contextlib
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

log = logging.getLogger("polydom")

# Bytes of the largest file of orders, and number of the latest allowed versions kept.
LARGEST = 1 << 20
KEPT = 100


class Orders(msgspec.Struct, forbid_unknown_fields=True):
    """The orders of the operator."""

    # Versions of indexes that may change what callers rely on
    allowed: list[str] = []


class OrdersFile:
    """The orders, in memory or in a file that all workers of a server share.

    A server without workers keeps them in memory. `path` is set before workers are
    forked.
    """

    def __init__(self) -> None:
        self.path: Path | None = None
        self._own = Orders()

    def read(self) -> Orders:
        """Return the current orders; the last known ones if the file is damaged."""
        if self.path is not None:
            with contextlib.suppress(FileNotFoundError):
                self._own = self._in_file(self.path)
        return self._own

    def change(self, edit: Callable[[Orders], object]) -> None:
        """Let `edit` change the orders, while no other worker changes them."""
        if self.path is None:
            edit(self._own)
            return
        with _locked(self.path.with_suffix(".lock")):
            orders = self.read()
            edit(orders)
            new = self.path.with_suffix(".new")
            new.write_bytes(msgspec.json.encode(orders))
            new.replace(self.path)

    def allow(self, version: str) -> None:
        """Let an index of this version change what callers rely on."""

        def edit(orders: Orders) -> None:
            others = [one for one in orders.allowed if one != version]
            orders.allowed = [*others, version][-KEPT:]

        self.change(edit)

    def _in_file(self, path: Path) -> Orders:
        try:
            if path.stat().st_size > LARGEST:
                raise msgspec.DecodeError(f"it has more than {LARGEST} bytes")
            return msgspec.json.decode(path.read_bytes(), type=Orders)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            facts = {"event": "bad_orders"}
            log.error("orders to all workers cannot be read: %s", error, extra=facts)
            return self._own


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file while the context is open. Only systems that fork do."""
    import fcntl

    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)
