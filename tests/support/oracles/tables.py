"""Tables read the slow way: a list of Python objects for each column."""

import csv
import io
import re
from contextlib import suppress
from datetime import UTC, datetime
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from polydom.features.items import Value
from polydom.features.tables.written_numbers import EMPTY

GROUPED = "-?[1-9][0-9]{0,2}([.][0-9]{3})+"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_columns_slowly(
    text: str, separator: str
) -> dict[str, tuple[str, list[Value]]]:
    """Columns of a CSV text: what each holds, and its values; dates as their texts."""
    names, *rows = [row for row in csv.reader(io.StringIO(text), delimiter=separator)]
    columns = zip(*rows, strict=True)
    named = zip(names, columns, strict=True)
    every = [cell.strip() for row in rows for cell in row]
    commas = separator != ","
    grouped = commas and any(re.fullmatch("-?[0-9]+,[0-9]+", c) for c in every)
    return {name: _typed([*cells], commas, grouped) for name, cells in named}


def _typed(cells: list[str], commas: bool, grouped: bool) -> tuple[str, list[Value]]:
    texts = [cell.strip() for cell in cells]
    points = [text for text in texts if "." in text]
    if grouped and points and all(re.fullmatch(GROUPED, text) for text in points):
        whole = _typed([text.replace(".", "") for text in texts], commas, False)
        return whole if whole[0] == "number" else ("word", [t or None for t in texts])
    for nothing in ([""], ["", *EMPTY]):
        known = [text for text in texts if text not in nothing]
        if known or nothing == [""]:
            found = [_plain(text) for text in known]
            if None not in found:
                return "number", [_told(texts, t, nothing, _plain) for t in texts]
    if known:
        for decimal in ",." if commas else ".,":
            read = partial(_written, decimal=decimal)
            if None not in [read(text) for text in known]:
                return "number", [_told(texts, t, nothing, read) for t in texts]
        for order in ("YMD", "MDY", "DMY"):
            find = partial(_date, order=order)
            if None not in [find(text) for text in known]:
                return "date", [_told(texts, t, nothing, find) for t in texts]
    return "word", [text or None for text in texts]


def _told(texts: list[str], text: str, nothing: list[str], read: Any) -> Value:
    value: Value = None if text in nothing else read(text)
    return None if value != value else value


def _plain(text: str) -> float | None:
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def _written(text: str, decimal: str) -> float | None:
    """A number with a sign of money or a share, and gaps between thousands."""
    if decimal == "." and (number := _plain(text)) is not None:
        return number
    digits = text.removeprefix("-").removeprefix("$").removesuffix("%").rstrip()
    whole, _, fraction = digits.partition(decimal)
    first, *groups = whole.split("." if decimal == "," else ",")
    if groups and (not 1 <= len(first) <= 3 or any(len(own) != 3 for own in groups)):
        return None
    if groups and first.startswith("0"):
        return None
    joined = first + "".join(groups)
    if not (joined + fraction).isdecimal() or (groups and not joined.isdecimal()):
        return None
    number = float(f"{joined or 0}.{fraction or 0}")
    return -number if text.startswith("-") else number


def _date(text: str, order: str) -> str | None:
    forms = ["%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d %b %Y"]
    forms += {"YMD": [], "MDY": ["%m/%d/%Y"], "DMY": ["%d/%m/%Y"]}[order]
    for form in forms:
        with suppress(ValueError):
            return datetime.strptime(text, form).date().isoformat()
    return None


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
