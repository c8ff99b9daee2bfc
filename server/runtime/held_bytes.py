"""How many bytes of requests a process holds, and which it refuses to hold."""

from types import TracebackType

from ..errors import Overloaded


class HeldBytes:
    """Counts the bytes of all bodies under way, `held`; for the event loop alone."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0

    def body(self) -> "HeldBody":
        """Begin to count one request's; a context, at whose end they are gone."""
        return HeldBody(self)


class HeldBody:
    """The bytes of one request that are held, counted in `held_bytes` with all."""

    __slots__ = ("_held_bytes", "_size")

    def __init__(self, held_bytes: HeldBytes) -> None:
        self._held_bytes = held_bytes
        self._size = 0

    def __enter__(self) -> "HeldBody":
        """Hold nothing yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let go of all."""
        self._held_bytes.held -= self._size
        self._size = 0

    def hold(self, size: int) -> None:
        """Hold so many bytes instead of those before.

        Raises
        ------
        Overloaded
            If that is more than before, and too many are held by all then.
        """
        held_bytes, more = self._held_bytes, size - self._size
        if more > 0 and held_bytes.held + more > held_bytes.limit:
            raise Overloaded(
                f"requests under way hold {held_bytes.held:,} bytes; at most "
                f"{held_bytes.limit:,} are held at a time"
            )
        held_bytes.held += more
        self._size = size
