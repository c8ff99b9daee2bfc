"""Dates as numbers: one by one, and a column of them at once."""

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from polydom.features.tables.dates import (
    NO_DATE,
    NUMBERS_OF,
    PARTS,
    DateCodes,
    Part,
    micros_of,
    parts_of,
    read_date,
    show_date,
)
from tests.support.oracles.tables import days_slowly, seconds_slowly

dates = st.datetimes(timezones=st.none() | st.just(timezone(timedelta(hours=5.5))))


@given(dates)
@example(datetime(1, 1, 1))
@example(datetime.max)
@example(datetime(1969, 12, 31, 23, 59, 59, 999_999))
def test_a_column_s_dates_are_read_as_each_alone(date: datetime) -> None:
    text = date.isoformat()
    try:
        utc = date.replace(tzinfo=date.tzinfo or UTC).astimezone(UTC)
    except OverflowError:  # before the first day of all
        assert np.isnan(DateCodes("day").get(text, np.nan))
        return
    slowly = {
        "day": days_slowly(utc),
        "month": utc.month,
        "weekday": utc.weekday(),
        "hour": utc.hour,
        "second": seconds_slowly(utc),
    }
    column = np.array([micros_of(text)])
    for part in PARTS:
        assert DateCodes(part)[text] == slowly[part]
        assert NUMBERS_OF[part](column).tolist() == [slowly[part]]
    assert read_date(show_date(int(column[0]), False)) == utc.replace(tzinfo=None)


@pytest.mark.parametrize(
    "text", ["", "x", "2024-13-01", "2024-13", "31/12/2024", "2024-05-01T" + "0" * 40]
)
def test_what_is_no_date_is_not_known(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 its text is Python's
        micros_of(text)
    codes = DateCodes("day")
    assert codes.get(text, -1.0) == -1.0
    with pytest.raises(KeyError):
        codes[text]


@pytest.mark.parametrize("value", [None, 7, True, 2.5])
def test_a_number_is_no_date(value: object) -> None:
    assert DateCodes("month").get(value, -1.0) == -1.0


def test_dates_are_shown_without_a_time_where_none_has_one() -> None:
    assert show_date(micros_of("2024-05-01"), True) == "2024-05-01"
    assert show_date(micros_of("2024-05-01 12:30"), False) == "2024-05-01T12:30:00"
    assert micros_of("2024-05-01T02:00+02:00") == micros_of("2024-05-01")


@pytest.mark.parametrize(
    ("texts", "parts"),
    [
        ([], ("day",)),
        (["2024-05-01"], ("day",)),
        (["2024-05-01", "2024-05-08"], ("day",)),
        (["2024-05-01", "2024-05-02"], ("day", "weekday")),
        (["2024-05-01 01:00", "2024-06-05 02:00"], ("day", "month", "hour")),
        (["2024-05-01", "2025-06-05 02:00"], PARTS[:-1]),
    ],
)
def test_only_what_varies_is_a_number(texts: list[str], parts: tuple[Part]) -> None:
    micros = [micros_of(text) for text in texts]
    assert parts_of(np.array([*micros, NO_DATE], np.int64)) == parts


@pytest.mark.parametrize(
    ("step_s", "count", "are_needed"),
    [(1, 3000, True), (0.01, 200, True), (3600, 3000, False), (86_400, 3000, False)],
)
def test_seconds_are_read_where_days_do_not_tell_dates_apart(
    step_s: float, count: int, are_needed: bool
) -> None:
    first = micros_of("2024-02-28T22:59:00")
    micros = first + (np.arange(count) * step_s * 1e6).astype(np.int64)
    parts = parts_of(micros)
    assert ("second" in parts) == are_needed
    numbers = np.stack([NUMBERS_OF[part](micros).astype(np.float32) for part in parts])
    assert len(np.unique(numbers, axis=1).T) == count


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("14:30", "14:30:00"),
        ("14:30:05,25", "14:30:05.250000"),
        ("2:30 pm", "14:30:00"),
        ("12:05 AM", "00:05:00"),
        ("26:15:00", "1970-01-02T02:15:00"),
        ("1 days 02:15:00", "1970-01-02T02:15:00"),
        (str(timedelta(days=1, hours=2)), "1970-01-02T02:00:00"),
        (str(timedelta(seconds=-1)), "1969-12-31T23:59:59"),
        ("-1 days +23:59:59", "1969-12-31T23:59:59"),
        ("-00:00:01", "1969-12-31T23:59:59"),
        ("2024-01-31 24:00", "2024-02-01T00:00:00"),
        ("2024-01-31T24:00:00", "2024-02-01T00:00:00"),
        ("31JAN2024", "2024-01-31T00:00:00"),
        ("31JAN2024:12:30:00", "2024-01-31T12:30:00"),
        ("31/Jan/2024:12:30:00 +0100", "2024-01-31T11:30:00"),
        ("31. Jan 2024", "2024-01-31T00:00:00"),
        ("2024-05", "2024-05-01T00:00:00"),
        ("May 2024", "2024-05-01T00:00:00"),
    ],
)
def test_times_alone_and_dates_of_other_programs_are_read(
    text: str, shown: str
) -> None:
    assert show_date(micros_of(text), False) == shown
    assert micros_of(shown) == micros_of(text)
    assert DateCodes("day")[f" {text} "] == DateCodes("day")[text]


@pytest.mark.parametrize(
    "text",
    ["14:60", "14:30:61", "13:00 pm", "1:5", "2024-01-31 25:00", "9999-12-31 24:00"],
)
def test_what_is_no_time_is_not_known(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        micros_of(text)
