"""Dates and times as numbers: days since 1970, and what comes again within them.

A date is a text as in ISO 8601, `2024-05-01` or `2024-05-01T12:30:00+02:00`. A time
without a zone is taken to be UTC.
"""

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

Part = Literal["day", "month", "weekday", "hour"]
Micros = NDArray[np.int64]  # since 1970 in UTC

PARTS: tuple[Part, ...] = get_args(Part)
NO_DATE = np.iinfo(np.int64).min
LONGEST = 40  # characters of a date

EPOCH = datetime(1970, 1, 1)
MICROSECOND = timedelta(microseconds=1)
DAY_US = 86_400_000_000
HOUR_US = 3_600_000_000
FIRST_US = (datetime.min - EPOCH) // MICROSECOND
LAST_US = (datetime.max - EPOCH) // MICROSECOND


def read_date(text: str) -> datetime:
    """Read a date: its time in UTC, without a zone; ValueError if it is none."""
    if len(text) > LONGEST:
        raise ValueError("too long for a date")
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        return found
    try:
        return found.astimezone(UTC).replace(tzinfo=None)
    except OverflowError as error:  # the first or last day of all
        raise ValueError(str(error)) from error


def micros_of(text: str) -> int:
    """Microseconds from 1970 to a date; ValueError if it is none."""
    return (read_date(text) - EPOCH) // MICROSECOND


def show_date(micros: int, whole_day: bool) -> str:
    """Write a date as a request would name it."""
    date = EPOCH + timedelta(microseconds=micros)
    return date.date().isoformat() if whole_day else date.isoformat()


class DateCodes:
    """One number of each date: read as a vocabulary is, though nobody lists its words.

    Parameters
    ----------
    part
        "day": days since 1970, with the fraction of the time of day; "month" from 1;
        "weekday" from 0, which is Monday; "hour" from 0.
    """

    def __init__(self, part: Part) -> None:
        self.part = part

    def __getitem__(self, text: object) -> float:
        """Read a date; KeyError for what is none."""
        number = self.get(text, math.nan)
        if number != number:
            raise KeyError(text)
        return number

    def get(self, text: object, default: float) -> float:
        """Read a date; the default for what is none."""
        if type(text) is not str:
            return default
        try:
            date = read_date(text)
        except ValueError:
            return default
        if self.part == "day":
            return float((date - EPOCH) // MICROSECOND) / DAY_US
        if self.part == "month":
            return float(date.month)
        return float(date.weekday() if self.part == "weekday" else date.hour)


def days_of(micros: Micros) -> NDArray[np.float64]:
    """Days since 1970."""
    return micros.astype(np.float64) / DAY_US


def months_of(micros: Micros) -> NDArray[np.int64]:
    """Months, from 1."""
    months: NDArray[np.int64] = micros.view("M8[us]").astype("M8[M]").astype(np.int64)
    return months % 12 + 1


def weekdays_of(micros: Micros) -> NDArray[np.int64]:
    """Days of the week, from 0: Monday."""
    return (micros // DAY_US + 3) % 7


def hours_of(micros: Micros) -> NDArray[np.int64]:
    """Hours, from 0."""
    return micros // HOUR_US % 24


NUMBERS_OF: Mapping[Part, Callable[[Micros], NDArray[np.generic]]] = {
    "day": days_of,
    "month": months_of,
    "weekday": weekdays_of,
    "hour": hours_of,
}


def parts_of(micros: Micros) -> tuple[Part, ...]:
    """Which numbers tell dates apart: days, and whatever else has several values."""
    known = micros[micros != NO_DATE]
    varied = [
        part
        for part in PARTS[1:]
        if len(known) and (numbers := NUMBERS_OF[part](known)).min() != numbers.max()
    ]
    return ("day", *varied)
