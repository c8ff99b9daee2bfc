"""What the operator has ordered while a server runs, for all its worker processes."""

import contextlib
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Literal

import msgspec

log = logging.getLogger("polydom")

# Bytes of the largest file of orders, and number of the latest allowed versions kept.
LARGEST = 1 << 20
KEPT = 100


Mode = Literal["off", "shadow", "canary"]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
# Name of a header in lower case; empty for none.
HeaderName = Annotated[str, msgspec.Meta(pattern="^[a-z0-9-]{0,64}$")]


class RolloutOrder(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What one model's candidate is used for."""

    mode: Mode = "off"
    # Share of the requests that the candidate gets, or is compared on
    share: Share = 0.0
    by: HeaderName = ""  # Header whose value decides which version answers
    # Set if the candidate was promoted and files could not be moved: the version of the
    # served file, and that of the candidate's file, which is served in its stead
    in_stead: tuple[str, str] | None = None


class Orders(msgspec.Struct, forbid_unknown_fields=True):
    """The orders of the operator."""

    # Versions of indexes that may change what callers rely on
    allowed: list[str] = []
    # Versions that the operator has promoted, or rolled back to
    wanted: list[str] = []
    rollouts: dict[str, RolloutOrder] = {}  # By the name of the model


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
        with locked(self.path.with_suffix(".lock")):
            orders = self.read()
            edit(orders)
            new = self.path.with_suffix(".new")
            new.write_bytes(msgspec.json.encode(orders))
            new.replace(self.path)

    def allow(self, version: str) -> None:
        """Let an index of this version change what callers rely on."""

        def edit(orders: Orders) -> None:
            orders.allowed = _with(orders.allowed, version)

        self.change(edit)

    def set_rollout(
        self, name: str, order: RolloutOrder, wanted: str | None = None
    ) -> None:
        """Set the order for a model; `wanted` is the version that is to be served."""

        def edit(orders: Orders) -> None:
            orders.rollouts[name] = order
            if wanted is not None:
                orders.wanted = _with(orders.wanted, wanted)

        self.change(edit)

    def rollout_of(self, name: str) -> RolloutOrder:
        """Return the order for a model; by default its candidate is not used."""
        return self.read().rollouts.get(name, RolloutOrder())

    def _in_file(self, path: Path) -> Orders:
        try:
            if path.stat().st_size > LARGEST:
                raise msgspec.DecodeError(f"it has more than {LARGEST} bytes")
            return msgspec.json.decode(path.read_bytes(), type=Orders)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            facts = {"event": "bad_orders"}
            log.error("orders to all workers cannot be read: %s", error, extra=facts)
            return self._own


def _with(versions: list[str], version: str) -> list[str]:
    return [*(one for one in versions if one != version), version][-KEPT:]


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file while the context is open.

    Systems that cannot fork have no locks, and no workers that need them.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)
