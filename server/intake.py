"""How many bytes of requests a process holds, from their coming to their answers."""

from types import TracebackType

from .errors import Overloaded


class Intake:
    """Counts the bytes of all bodies under way; for the event loop alone.

    Parameters
    ----------
    limit
        Bytes at most.

    Attributes
    ----------
    held
        Bytes now.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0

    def body(self) -> "Body":
        """Begin to count one request's; a context, at whose end they are gone."""
        return Body(self)


class Body:
    """The bytes of one request that are held.

    Parameters
    ----------
    intake
        Counts all of them.
    """

    __slots__ = ("_intake", "_size")

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._size = 0

    def __enter__(self) -> "Body":
        """Hold nothing yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let go of all."""
        self._intake.held -= self._size
        self._size = 0

    def hold(self, size: int) -> None:
        """Hold so many bytes instead of those before.

        Raises
        ------
        Overloaded
            If that is more than before, and too many are held by all then.
        """
        intake, more = self._intake, size - self._size
        if more > 0 and intake.held + more > intake.limit:
            raise Overloaded(
                f"requests under way hold {intake.held:,} bytes; at most "
                f"{intake.limit:,} are held at a time"
            )
        intake.held += more
        self._size = size
