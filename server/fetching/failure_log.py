"""Records in the log about a fetch: its failures, and the time it holds the loop."""

import errno
import logging
import os
import re
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

from polydom.features.errors import PolydomError, printable
from polydom.features.fetches.fetch import Key

from ..engine.monitoring.rare_log import RareLog
from .breaker import FAILURES, PROBE_S

# Seconds from which a step of a call counts as a blocked event loop.
BLOCKED_S = 0.1
# Number of errors named in a sentence, each the cause of the one before.
MOST_ERRORS = 4

log = logging.getLogger("polydom")


class FailureLog:
    """Logs what goes wrong with one fetch, each kind at most once a minute.

    Records never have values of keys, which may be people's names or numbers.
    """

    def __init__(self, name: str, now: Callable[[], float]) -> None:
        self._name = name
        self._events = RareLog(now)

    def failed(self, error: Exception, keys: Iterable[Key] = ()) -> None:
        """Count a failed call for some keys; perhaps log why it failed."""
        times = self._events.add("failed")
        if times is not None:
            log.error("fetch %r failed%s: %s", self._name, times, explain(error, keys))

    def down(self) -> None:
        """Note that the source went down; perhaps log it."""
        times = self._events.add("down")
        if times is not None:
            text = (
                "fetch %r is down%s: %d calls in a row failed; answers do without it, "
                "and it is tried every %g s"
            )
            log.warning(text, self._name, times, FAILURES, PROBE_S)

    def up(self) -> None:
        """Log that the source is up again, if it was logged that it is down."""
        log.info("fetch %r is up again", self._name)

    def held(self, seconds: float) -> None:
        """Note that a call's step held the event loop; log it if that was long."""
        if seconds < BLOCKED_S:
            return
        times = self._events.add("held")
        if times is not None:
            text = (
                "fetch %r blocked the event loop%s, for %.0f ms; no other request was "
                "answered meanwhile. Await what takes time, or run it in a thread "
                "(asyncio.to_thread)"
            )
            log.warning(text, self._name, times, seconds * 1e3)


def explain(error: Exception, keys: Iterable[Key]) -> str:
    """Return a sentence for the log, without values of the `keys` of the call.

    The text of an error of other code may quote a key in any form, as "KeyError: 17"
    does. So the types of such errors and the place in the code are named instead, and
    what the system says of its own errors.
    """
    cause: BaseException = error
    if isinstance(error, PolydomError):
        if error.__cause__ is None:
            return printable(_without(keys, str(error.args[0])))
        cause = error.__cause__
    # frames: of `Fetch.bring`, then of the call itself
    steps = [*traceback.walk_tb(cause.__traceback__)][:2]
    places = [f" in {Path(at.f_code.co_filename).name}, line {n}" for at, n in steps]
    where = getattr(error, "place", None)
    if where is not None:  # a place in a library tells nobody anything
        return f"{where}: {_kinds(cause)}"
    return "".join([_kinds(cause), *places[-1:]])


def _without(keys: Iterable[Key], text: str) -> str:
    """Replace the values of keys in a text by dots."""
    values = {value for key in keys for value in key}
    shown = {form for value in values for form in (str(value), repr(value).strip("'"))}
    # by whole words, so that the key 1 leaves 128 as it is
    words = "|".join(map(re.escape, sorted(shown - {""}, key=len, reverse=True)))
    return re.sub(rf"(?<![^\W_])({words})(?![^\W_])", "...", text) if words else text


def _kinds(first: BaseException) -> str:
    """Return the type of an error, and those of the errors that led to it."""
    kinds: list[str] = []
    error: BaseException | None = first
    while error is not None and len(kinds) < MOST_ERRORS:
        kind = type(error)
        is_known = kind.__module__ == "builtins"
        kinds.append(f"{'' if is_known else f'{kind.__module__}.'}{kind.__qualname__}")
        number = error.errno if isinstance(error, OSError) else None
        if number is not None and number in errno.errorcode:
            kinds[-1] += f" ({os.strerror(number)})"
        error = error.__cause__ or error.__context__
    return " after ".join(kinds)
