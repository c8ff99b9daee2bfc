"""An executor that notes what it is given, and what becomes of it."""

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any


class RecordedExecutor(Executor):
    """Passes calls on to another one.

    Parameters
    ----------
    inner
        A cluster's.
    on_submit
        Called with the name of each function, after the call was passed on, and how
        often it came until then.

    Attributes
    ----------
    given, done
        Names and arguments of the calls that came, and of those that returned.
    """

    def __init__(
        self, inner: Any, on_submit: Callable[[str, int], object] | None = None
    ) -> None:
        self.given: list[tuple[str, tuple[Any, ...]]] = []
        self.done: list[tuple[str, tuple[Any, ...]]] = []
        self._inner = inner
        self._lock = threading.Lock()
        self._on_submit = on_submit

    def submit(
        self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> "Future[Any]":
        future: Future[Any] = self._inner.submit(fn, *args, **kwargs)
        # the check of workers comes first, and what it is to call next
        function, *rest = args if hasattr(fn, "__self__") else (fn, *args)
        call = function.__name__, tuple(rest)
        with self._lock:
            self.given.append(call)
            count = sum(name == function.__name__ for name, _ in self.given)
        future.add_done_callback(lambda ended: self._note(ended, call))
        if self._on_submit is not None:
            self._on_submit(function.__name__, count)
        return future

    def _note(self, future: "Future[Any]", call: tuple[str, tuple[Any, ...]]) -> None:
        if not future.cancelled() and future.exception() is None:
            with self._lock:
                self.done.append(call)

    def cores(self) -> int:
        """Count the cores of the other."""
        count: int = self._inner.cores()
        return count

    def on_each(self, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """Have each worker of the other carry out a call."""
        found: dict[str, Any] = self._inner.on_each(function, *arguments)
        return found
