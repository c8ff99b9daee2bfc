"""Dates and times as numbers: days since 1970, month, weekday, hour and second.

A date is written as in ISO 8601, `2024-05-01` or `2024-05-01T12:30:00+02:00`, or as
people write it: `2024/5/1`, `1 May 2024`, `May 1, 2024 2:30 pm`, `Wed, 01 May 2024
14:30:00 +0200`. `31.01.2024` has the day first. For `01/31/2024`, `31-01-2024` and
`31/01/24`, a `DateOrder` says whether the day or the month is first. A time without a
zone is in UTC. A month without a day means its first day.

A time of day or a duration, such as `14:30`, `2:30 pm`, `26:15:00` and
`1 day 02:15:00`, is added to the beginning of 1970, which makes it a date.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

Part = Literal["day", "month", "weekday", "hour", "second"]
Micros = NDArray[np.int64]  # microseconds since 1970 in UTC

DateOrder = Literal["YMD", "MDY", "DMY"]

PARTS: tuple[Part, ...] = get_args(Part)
# Orders in which the dates of a column are tried; "YMD" is the order of ISO 8601.
ORDERS: tuple[DateOrder, ...] = get_args(DateOrder)
NO_DATE = np.iinfo(np.int64).min
LONGEST = 40  # characters of a date

EPOCH = datetime(1970, 1, 1)
MICROSECOND = timedelta(microseconds=1)
DAY_US = 86_400_000_000
HOUR_US = 3_600_000_000
SECOND_US = 1_000_000
FIRST_US = (datetime.min - EPOCH) // MICROSECOND
LAST_US = (datetime.max - EPOCH) // MICROSECOND

_NAMES = "jan feb mar apr may jun jul aug sep oct nov dec"
MONTHS: Mapping[str, int] = {name: k for k, name in enumerate(_NAMES.split(), 1)}
_MONTH = (
    "(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?"
    "|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_WEEKDAY = "(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?,? +)?"
_MINUTES = (
    r":(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d)(?:[.,](?P<fraction>\d{1,9}))?)?"
    r"(?: ?(?P<half>[ap])\.?m\.?)?"
)
_TIME = (
    rf"(?:(?:[T,:]| ) *(?P<hour>\d{{1,2}}){_MINUTES}"
    r"(?: ?(?P<zone>Z|UTC|GMT|[+-]\d\d:?\d\d))?)?"
)
_TIME_ALONE = re.compile(
    r"(?:(?P<days>-?\d{1,5}) days?,? \+?|(?P<minus>-))?"
    rf"(?P<hour>\d{{1,4}}){_MINUTES}",
    re.IGNORECASE | re.ASCII,
)
_YEAR, _SHORT_YEAR = r"(?P<year>\d{4})", r"(?P<year>\d\d)"
_DAY, _NUMBER = r"(?P<day>\d{1,2})", r"(?P<month>\d{1,2})"
_TWO_DAY, _TWO_NUMBER = r"(?P<day>\d\d)", r"(?P<month>\d\d)"
_MARK, _SAME = "(?P<mark>[/-])", "(?P=mark)"
_ANY_ORDER = (
    rf"{_YEAR}(?P<mark>[./-]){_NUMBER}{_SAME}{_DAY}",
    rf"{_DAY}\.{_NUMBER}\.{_YEAR}",
    rf"{_TWO_DAY}\.{_TWO_NUMBER}\.{_SHORT_YEAR}",
    rf"{_YEAR}-{_TWO_NUMBER}",
    rf"{_WEEKDAY}{_DAY}(?:st|nd|rd|th)?(?:[ -/]|\. ?)?{_MONTH}\.?,?[ -/]?{_YEAR}",
    rf"{_MONTH}[ -]{_YEAR}",
    rf"{_DAY}[ -]{_MONTH}[ -]{_SHORT_YEAR}",
    rf"{_WEEKDAY}{_MONTH}\.? {_DAY}(?:st|nd|rd|th)?,? {_YEAR}",
)
_FORMS: Mapping[DateOrder, tuple[str, ...]] = {
    "YMD": _ANY_ORDER,
    "MDY": (
        rf"{_NUMBER}{_MARK}{_DAY}{_SAME}{_YEAR}",
        rf"{_TWO_NUMBER}{_MARK}{_TWO_DAY}{_SAME}{_SHORT_YEAR}",
        *_ANY_ORDER,
    ),
    "DMY": (
        rf"{_DAY}{_MARK}{_NUMBER}{_SAME}{_YEAR}",
        rf"{_TWO_DAY}{_MARK}{_TWO_NUMBER}{_SAME}{_SHORT_YEAR}",
        *_ANY_ORDER,
    ),
}
_WRITTEN = {
    order: tuple(re.compile(form + _TIME, re.IGNORECASE | re.ASCII) for form in forms)
    for order, forms in _FORMS.items()
}


def read_date(text: str, order: DateOrder = "YMD") -> datetime:
    """Parse a date; return its time in UTC, without a zone. ValueError for other texts.

    Examples
    --------
    >>> read_date("2/1/2024", "DMY").isoformat()
    '2024-01-02T00:00:00'
    """
    if len(text) > LONGEST:
        raise ValueError("too long for a date")
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = _written_date(text, order)
    if found.tzinfo is None:
        return found
    try:
        return found.astimezone(UTC).replace(tzinfo=None)
    except OverflowError as error:  # at an end of the calendar
        raise ValueError(str(error)) from error


def _written_date(text: str, order: DateOrder) -> datetime:
    for pattern in _WRITTEN[order]:
        if found := pattern.fullmatch(text):
            return _assembled(found.groupdict())
    if found := _TIME_ALONE.fullmatch(text):
        parts = found.groupdict()
        time = timedelta(int(parts["days"] or 0)) + _time_of(parts)
        return EPOCH - time if parts["minus"] else EPOCH + time
    raise ValueError(f"{text!r} is no date")


def _assembled(parts: Mapping[str, str | None]) -> datetime:
    year, named = int(parts["year"] or ""), parts["month"]
    if len(parts["year"] or "") == 2:  # as in strptime
        year += 2000 if year < 69 else 1900
    month = (
        int(named) if named and named.isdigit() else MONTHS[(named or "")[:3].lower()]
    )
    time = _time_of(parts)
    if time > timedelta(1):
        raise ValueError("no hour of a day")
    zone, offset = None, parts["zone"]
    if offset:
        minutes = 0
        if offset[0] in "+-":
            minutes = int(offset[1:3]) * 60 + int(offset[-2:])
        zone = timezone(timedelta(minutes=-minutes if offset[0] == "-" else minutes))
    day = int(parts.get("day") or 1)
    try:
        return datetime(year, month, day, tzinfo=zone) + time
    except OverflowError as error:
        raise ValueError(str(error)) from error


def _time_of(parts: Mapping[str, str | None]) -> timedelta:
    """Return the time since midnight, or the duration, that `parts` of a text state."""
    hour = int(parts["hour"] or 0)
    if half := parts["half"]:
        if not 1 <= hour <= 12:
            raise ValueError("no hour of half a day")
        hour = hour % 12 + (12 if half.lower() == "p" else 0)
    return timedelta(
        hours=hour,
        minutes=int(parts["minute"] or 0),
        seconds=int(parts["second"] or 0),
        microseconds=int((parts["fraction"] or "").ljust(6, "0")[:6]),
    )


def micros_of(text: str, order: DateOrder = "YMD") -> int:
    """Return the microseconds from 1970 to a date; ValueError for any other text."""
    return (read_date(text, order) - EPOCH) // MICROSECOND


def orders_of(words: Sequence[str]) -> dict[DateOrder, list[int]]:
    """Read words as dates, once for each order of day, month and year that fits all.

    The result maps each such order to the microseconds from 1970 to all dates. It is
    empty if there are no words, or if no order fits all words.
    """
    found: dict[DateOrder, list[int]] = {}
    for order in ORDERS if words else ():
        with suppress(ValueError):
            found[order] = [micros_of(word, order) for word in words]
    return found


def show_date(micros: int, whole_day: bool) -> str:
    """Write microseconds since 1970 as a date (if `whole_day`), a time, or both."""
    date = EPOCH + timedelta(microseconds=micros)
    if not whole_day and 0 <= micros < DAY_US:
        return date.time().isoformat()
    return date.date().isoformat() if whole_day else date.isoformat()


class DateCodes:
    """A mapping from the text of any date to one number, such as its month.

    The number is a "day": days since 1970, with the time of day as a fraction; a
    "month" from 1; a "weekday" from 0, which is Monday; an "hour" from 0; or a "second"
    of the hour from 0, with its fraction.
    """

    def __init__(self, part: Part, order: DateOrder = "YMD") -> None:
        self.part, self.order = part, order

    def __getitem__(self, text: object) -> float:
        """Return the number of a date; KeyError for any other value."""
        number = self.get(text, math.nan)
        if number != number:
            raise KeyError(text)
        return number

    def get(self, text: object, default: float) -> float:
        """Return the number of a date; the default for any other value."""
        if type(text) is not str:
            return default
        try:
            date = read_date(text.strip(), self.order)
        except ValueError:
            return default
        if self.part == "day":
            return float((date - EPOCH) // MICROSECOND) / DAY_US
        if self.part == "second":
            return float((date - EPOCH) // MICROSECOND % HOUR_US) / SECOND_US
        if self.part == "month":
            return float(date.month)
        return float(date.weekday() if self.part == "weekday" else date.hour)


def days_of(micros: Micros) -> NDArray[np.float64]:
    """Return the days from 1970 to each date, with the time of day as a fraction."""
    return micros.astype(np.float64) / DAY_US


def months_of(micros: Micros) -> NDArray[np.int64]:
    """Return the month of each date, from 1."""
    months: NDArray[np.int64] = micros.view("M8[us]").astype("M8[M]").astype(np.int64)
    return months % 12 + 1


def weekdays_of(micros: Micros) -> NDArray[np.int64]:
    """Return the weekday of each date, from 0, which is Monday."""
    return (micros // DAY_US + 3) % 7


def hours_of(micros: Micros) -> NDArray[np.int64]:
    """Return the hour of each date, from 0."""
    return micros // HOUR_US % 24


def seconds_of(micros: Micros) -> NDArray[np.float64]:
    """Return the seconds from the full hour to each date, with their fractions."""
    return (micros % HOUR_US).astype(np.float64) / SECOND_US


NUMBERS_OF: Mapping[Part, Callable[[Micros], NDArray[np.generic]]] = {
    "day": days_of,
    "month": months_of,
    "weekday": weekdays_of,
    "hour": hours_of,
    "second": seconds_of,
}


def parts_of(micros: Micros) -> tuple[Part, ...]:
    """Choose the numbers that dates are read as: the day, and all others that vary.

    As float32, the day is exact to about three minutes. So "second" is chosen only if
    at least one date in 50 would have the same day, as float32, as another date.
    """
    known = np.unique(micros[micros != NO_DATE])
    days = np.unique(days_of(known).astype(np.float32))
    are_told = len(known) - len(days) < len(known) / 50
    varied = [
        part
        for part in PARTS[1:]
        if len(known) and (numbers := NUMBERS_OF[part](known)).min() != numbers.max()
    ]
    return ("day", *(part for part in varied if part != "second" or not are_told))
