"""Numbers as people write them are read, and nothing else is."""

from typing import Any

import pytest

from polydom.features.tables.written_numbers import read_number


@pytest.mark.parametrize(
    ("cell", "decimal", "number"),
    [
        ("1,234.56", ".", 1234.56),
        ("1.234,56", ",", 1234.56),
        ("1 234,56", ",", 1234.56),
        ("1\u00a0234\u00a0567", ".", 1234567),
        ("12'345.5", ".", 12345.5),
        ("$1,000", ".", 1000),
        ("-$5", ".", -5),
        ("$-5", ".", -5),
        ("5 €", ",", 5),
        ("CHF 7.50", ".", 7.5),
        ("12.5%", ".", 12.5),
        ("(1,234)", ".", -1234),
        ("\u22123", ".", -3),
        (",5", ",", 0.5),
        ("308,668", ".", 308668),
        ("308,668", ",", 308.668),
        ("12,34,567.5", ".", 1234567.5),
        ("1,23,456", ".", 123456),
        ("US$ 5", ".", 5),
        ("Rs. 1,000", ".", 1000),
        ("48.85°", ".", 48.85),
    ],
)
def test_numbers_are_read_as_people_write_them(
    cell: str, decimal: Any, number: float
) -> None:
    assert read_number(cell, decimal) == number


@pytest.mark.parametrize(
    "cell",
    [
        "",
        "-",
        "1,23,45",
        "12,34",
        "1,2345",
        "--5",
        "(5",
        "5)",
        "$",
        "%",
        "1 2",
        "5 $ €",
    ],
)
def test_what_is_no_number_is_not_read(cell: str) -> None:
    with pytest.raises(ValueError, match=r"number|signs"):
        read_number(cell)
