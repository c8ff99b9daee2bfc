"""All errors that polydom raises on purpose; `PolydomError` is their base class."""

from typing import TypeVar

from .figures import show_us
from .sizes import Size, show_size

# Most characters of a message. A longer message loses its middle: its beginning says
# what is wrong, and its end says what to do.
LONGEST_MESSAGE = 1000


class PolydomError(Exception):
    """Base of every error a caller may want to catch.

    `code` is stable and part of responses; the message is for people and may change.
    The message is always one line of at most `LONGEST_MESSAGE` printable characters,
    even if it quotes a file or a request.
    """

    code = "polydom_error"

    def __str__(self) -> str:
        """Return the message in printable characters, shortened if it is too long."""
        return printable(super().__str__())


AnyError = TypeVar("AnyError", bound=BaseException)


def without_frames(error: AnyError) -> AnyError:
    """Drop the traceback of an error and of its causes, and return the error.

    A stored traceback would keep the variables of its frames alive, such as a whole
    request.
    """
    one: BaseException | None = error
    while one is not None:
        one.__traceback__ = None
        one = one.__cause__ or one.__context__
    return error


def printable(text: str, longest: int = LONGEST_MESSAGE) -> str:
    """Escape the control characters of a text, and cut its middle if it is too long.

    The result has at most `longest` characters.

    Examples
    --------
    >>> printable("x" * 1000, longest=20)
    'xxxxxxxx ... xxxxxxx'
    """
    if len(text) > 4 * longest:  # more than is ever shown: cut early
        text = f"{text[: 2 * longest]}{text[-2 * longest :]}"
    if not text.isprintable():
        text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    if len(text) <= longest:
        return text
    first = (longest - 4) // 2
    return f"{text[:first]} ... {text[first + 5 - longest :]}"


class BadItem(PolydomError):
    """An item cannot be used: its format is wrong, or it is empty or too large."""

    code = "bad_item"


class BadFeature(PolydomError):
    """A feature or step does not exist, raised an error, or returned NaN."""

    code = "bad_feature"


class BadProject(PolydomError):
    """A project file, or the data it names, cannot be used."""

    code = "bad_project"


class FeatureFailed(BadFeature):
    """A feature failed on an item: an error was raised, or its values are unusable.

    `feature` is the position of the feature in its extractor, or None. `step` is the
    position of the step that raised the error; None if the feature itself failed.
    """

    def __init__(
        self, message: str, feature: int | None = None, step: int | None = None
    ) -> None:
        self.feature = feature
        self.step = step
        super().__init__(message)


class BadFetch(PolydomError):
    """A fetch cannot be used: its file, its terms or its library is wrong."""

    code = "bad_fetch"


class FetchFailed(PolydomError):
    """A fetch brought nothing: its call raised an error, or its answer is unusable.

    `place` is where it was to come from, such as "Redis at localhost:6379", if a
    library could not carry out the call. `again` is False if the same call is known to
    fail again.
    """

    code = "fetch_failed"

    def __init__(
        self, message: str, place: str | None = None, *, again: bool = True
    ) -> None:
        super().__init__(message)
        self.place = place
        self.again = again


class BadInput(PolydomError, ValueError):
    """An argument, or part of a request, does not match its documentation."""

    code = "bad_input"


class BadRow(BadInput):
    """A row holds a number that its model cannot use: NaN, infinity, or too large.

    `column` is the position of the NaN or infinity in the full row. It is None if all
    numbers are finite, but the model's sums of them overflow.
    """

    def __init__(self, message: str, column: int | None = None) -> None:
        self.column = column
        super().__init__(message)


class AllAlike(BadInput):
    """A fit is impossible, because all given rows get the same decision."""


class TooFewRows(BadInput):
    """A promise is impossible, because there are too few rows to calibrate on."""


class BadModel(PolydomError):
    """An estimator has no compiled form, or stored arrays do not make a model."""

    code = "bad_model"


class BadIndexFile(PolydomError):
    """An index file is damaged, cut off, of another version, or no index at all."""

    code = "bad_index_file"


class CannotWrite(PolydomError, OSError):
    """A file cannot be written: the disk is full, or the system does not allow it."""

    code = "cannot_write"


class WorkerLost(PolydomError):
    """A process that did part of the work was killed or crashed.

    `stage` names the work of the process; `cure` says what may help.
    """

    code = "worker_lost"

    def __init__(self, stage: str, cure: str, why: str = "") -> None:
        self.stage = stage
        self.cure = cure
        why = why or (
            "a worker process was killed or crashed, most likely because memory ran out"
        )
        super().__init__(f"{stage}: {why}; {cure}")


class BadWorker(PolydomError):
    """A cluster, or one of its workers, cannot do the work of a build."""

    code = "bad_worker"


class Unfinished(PolydomError):
    """Another machine must do its part of the build first; finished work is kept."""

    code = "unfinished"


class LacksTimes(Unfinished):
    """A build needs times that `polydom measure` must measure on another machine."""

    code = "lacks_times"


class LacksWork(Unfinished):
    """A measurement needs work that `polydom build` must do on another machine."""

    code = "lacks_work"


class NothingFits(PolydomError):
    """No feature set fits the budget with the quality that was asked for."""

    code = "nothing_fits"

    def __init__(self, *, budget_s: float, cheapest_s: float, size: Size) -> None:
        self.budget_s = budget_s
        self.cheapest_s = cheapest_s
        self.size = size
        super().__init__(
            f"a budget of {show_us(budget_s * 1e6)} is below the cheapest model's "
            f"{show_us(cheapest_s * 1e6)} for an item of size {show_size(size)}"
        )
