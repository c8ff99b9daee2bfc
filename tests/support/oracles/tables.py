"""Tables read the slow way: a list of Python objects for each column."""

import csv
import io
import math
from datetime import UTC, datetime
from fractions import Fraction

import numpy as np

from polydom.features.items import Value

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_columns_slowly(text: str, separator: str) -> dict[str, list[Value]]:
    """Columns of a CSV text: of numbers, dates (their texts) or words."""
    names, *rows = [row for row in csv.reader(io.StringIO(text), delimiter=separator)]
    columns = zip(*rows, strict=True)
    named = zip(names, columns, strict=True)
    return {name: _typed([*cells], separator) for name, cells in named}


def _typed(cells: list[str], separator: str) -> list[Value]:
    texts = [cell.strip() for cell in cells]
    if all(_is_number(text) for text in texts if text):
        return [_number(text) for text in texts]
    commas = [text.replace(",", ".", 1) for text in texts]
    if (
        separator != ","
        and not any("." in text for text in texts)
        and all(_is_number(text) for text in commas if text)
    ):
        return [_number(text) for text in commas]
    return [text or None for text in texts]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _number(text: str) -> Value:
    number = float(text) if text else math.nan
    return None if math.isnan(number) else number


def seconds_slowly(date: datetime) -> float:
    """Seconds since the full hour."""
    return date.minute * 60 + date.second + date.microsecond / 1e6


def days_slowly(date: datetime) -> float:
    """Days since 1970, with the fraction of the day."""
    since = date.replace(tzinfo=date.tzinfo or UTC) - EPOCH
    seconds = since.days * 86_400 + since.seconds
    return float(seconds * 1_000_000 + since.microseconds) / 86_400e6


def moved_slowly(number: float, offset: Fraction, scale: float) -> float:
    """Take an offset from a number, and scale what float64 keeps of the difference."""
    largest = Fraction(float(np.finfo(np.float32).max))
    difference = Fraction(float(Fraction(float(number)) - offset))
    return float(min(max(difference * Fraction(scale), -largest), largest))
