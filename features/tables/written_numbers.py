"""Numbers as programs and people write them, and words for an empty cell."""

import re
from collections.abc import Collection, Sequence

from .records import Decimal, trim

# Words for an empty cell in columns of numbers and dates: in pandas, R, SQL, Excel.
_EMPTY = (
    "NA|N/A|n/a|<NA>|#N/A|#N/A N/A|#NA|NaN|nan|-nan|-NaN|NULL|null|(null)|None|"
    "none|NIL|nil|\\N|?|-|--|\u2014|\u2013|.|..|...|#VALUE!|#DIV/0!|#REF!|#NAME?|"
    "#NUM!|#NULL!|1.#IND|-1.#IND|1.#QNAN|-1.#QNAN|n.a.|N.A.|na|NAN|Nan|NaT|Null|"
    "NONE|Nil|#SPILL!|#CALC!|#NV|#WERT!|#BEZUG!|#ZAHL!|#N/D|#VALEUR!|0000-00-00|"
    "0000-00-00 00:00:00"
)
EMPTY = tuple(_EMPTY.split("|"))
CURRENCIES = "$€£¥₹₽₩₺₴₫₪₦"
CODES = (
    *("USD", "EUR", "GBP", "JPY", "CHF", "CNY", "INR", "kr", "zł", "Kč", "Ft"),
    *("CAD", "AUD", "NZD", "HKD", "SGD", "SEK", "NOK", "DKK", "PLN", "CZK", "HUF"),
    *("BRL", "MXN", "ZAR", "TRY", "KRW", "RUB", "Fr.", "Rs.", "US$", "C$", "A$", "R$"),
)
# A space, the spaces that typesetters use between thousands, and the Swiss apostrophe.
GAPS = " \u00a0\u2009\u202f'\u2019"
LONGEST_NUMBER = 64  # characters of a number

_SIGN = f"(?P<money>[{CURRENCIES}]|{'|'.join(map(re.escape, CODES))})"
_SIGNED = re.compile(
    rf"(?P<open>\()?\s*(?P<minus>[-+\u2212])?\s*{_SIGN}?\s*(?P<minus2>[-+\u2212])?"
    rf"(?P<digits>[\d.,{GAPS}]*\d[.,]?)(?P<power>[eE][-+]?\d+)?"
    rf"\s*(?P<unit>%|‰|°[CF]?|{_SIGN.replace('money', 'money2')})?\s*(?P<close>\))?"
)
_GROUPED = {
    ".": re.compile(
        rf"[1-9]\d{{0,2}}(?:([,{GAPS}])\d{{3}})(?:\1\d{{3}})*(\.\d*)?"
        r"|[1-9]\d?(?:,\d\d)+,\d{3}(?:\.\d*)?"  # lakhs and crores
    ),
    ",": re.compile(rf"[1-9]\d{{0,2}}(?:([.{GAPS}])\d{{3}})(?:\1\d{{3}})*(,\d*)?"),
}
_PLAIN = {".": re.compile(r"\d*\.?\d*"), ",": re.compile(r"\d*,?\d*")}


def plain_number(word: str) -> float | None:
    """Read a number as programs write it; None for any other word.

    Underscores between digits, which Python allows, are refused: `2024_01` is a name.
    """
    try:
        return None if "_" in word else float(word)
    except ValueError:
        return None


def read_number(cell: str, decimal: Decimal = ".") -> float:
    """Read a number as people write it, such as with a currency or grouped digits.

    `decimal` is the mark before the fraction. Raises ValueError for any other text.

    Examples
    --------
    >>> read_number("$1,234.50"), read_number("1.234,5 €", ","), read_number("(3 %)")
    (1234.5, 1234.5, -3.0)
    """
    return _read_number(cell, decimal)[0]


def _read_number(cell: str, decimal: Decimal) -> tuple[float, str]:
    """Return a number, and its currency sign; the sign is "" if there is none."""
    found = _SIGNED.fullmatch(cell) if len(cell) <= LONGEST_NUMBER else None
    if found is None or bool(found["open"]) != bool(found["close"]):
        raise ValueError(f"{cell!r} is no number")
    digits = found["digits"]
    if _GROUPED[decimal].fullmatch(digits):
        digits = "".join(c for c in digits if c.isdigit() or c == decimal)
    elif not _PLAIN[decimal].fullmatch(digits):
        raise ValueError(f"{cell!r} is no number with {decimal!r} before its fraction")
    number = float(digits.replace(",", ".") + (found["power"] or ""))
    minus = f"{found['minus'] or ''}{found['minus2'] or ''}{found['open'] or ''}"
    if len(minus) > 1:
        raise ValueError(f"{cell!r} has two signs")
    money = f"{found['money'] or ''}{found['money2'] or ''}"
    return -number if minus in ("-", "\u2212", "(") and minus else number, money


def is_empty(cell: str, missing: Collection[str] = ()) -> bool:
    """Return True for a blank cell, a word such as `NA`, or a word in `missing`."""
    text = trim(cell)
    return not text or text in missing or text in EMPTY


def read_numbers(words: Sequence[str], decimal: Decimal) -> list[float] | None:
    """Return `words` as numbers, or None unless all are numbers of one currency."""
    money: set[str] = set()
    numbers = []
    try:
        for word in words:
            plain = plain_number(word) if decimal == "." else None
            number, sign = (
                (plain, "") if plain is not None else _read_number(word, decimal)
            )
            numbers.append(number)
            money.add(sign)
    except ValueError:
        return None
    return numbers if len(money - {""}) <= 1 else None
