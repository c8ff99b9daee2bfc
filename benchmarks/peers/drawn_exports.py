"""Tables as people export them, drawn: the label depends on the columns in question."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

Columns = dict[str, list[str]]
Draw = Callable[[np.random.Generator, int], tuple[Columns, NDArray[Any]]]

NOISE = 0.05  # share of labels that nothing tells
NOTHING = ["NA", "?", "-", "NULL", "None", "N/A", "#N/A", ".", "n/a", ""]
TRUTHS = {
    "python": ("True", "False"),
    "excel": ("TRUE", "FALSE"),
    "sql": ("t", "f"),
    "form": ("Yes", "No"),
    "code": ("1", "0"),
}
GOOD = ["fast delivery", "would buy it again", "friendly people", "works well"]
BAD = ["broke after a day", "money back please", "never again", "very slow answer"]
FILLER = ["the parcel", "my order of May", "this shop", "item 12", "our kitchen"]


def _mixed(number: float, thousands: str, decimal: str) -> str:
    return f"{number:,.2f}".translate({ord(","): thousands, ord("."): decimal})


def _lines(rng: np.random.Generator, count: int) -> tuple[Columns, NDArray[Any]]:
    """Rows sorted by their label, as a query gives them, below pandas' row numbers."""
    x = rng.normal(size=count)
    score = np.sort(x)
    cells = [f"{value:.4f}" for value in score + rng.normal(0, 1, count)]
    return {"": [str(k) for k in range(count)], "x": cells}, score


def _german(rng: np.random.Generator, count: int) -> tuple[Columns, NDArray[Any]]:
    x, y = rng.normal(size=(2, count)) * 3
    cells = {"höhe": x, "breite": y}
    return {
        name: [f"{value:.3f}".replace(".", ",") for value in values]
        for name, values in cells.items()
    }, x + y


def _words(rng: np.random.Generator, count: int) -> tuple[Columns, NDArray[Any]]:
    word = rng.integers(0, 3, count)
    x = rng.normal(size=count)
    names = np.array(["groß", "süß", "klein"])
    return {"größe": names[word].tolist(), "x": [f"{v:.3f}" for v in x]}, (
        x + 2.0 * (word == 1)
    )


def _amounts(rng: np.random.Generator, count: int) -> tuple[Columns, NDArray[Any]]:
    drawn = np.exp(rng.normal(7, 2, (5, count)))
    written: list[Callable[[float], str]] = [
        lambda v: _mixed(v, ",", "."),
        lambda v: _mixed(v, ".", ","),
        lambda v: _mixed(v, "\u00a0", ","),
        lambda v: f"${v:,.2f}",
        lambda v: f"{v / 100:.1f} %",
    ]
    names = ["us", "german", "french", "price", "share"]
    columns = {
        name: [write(v) for v in values.tolist()]
        for name, write, values in zip(names, written, drawn, strict=True)
    }
    return columns, np.log(drawn).sum(0)


def _gaps(rng: np.random.Generator, count: int) -> tuple[Columns, NDArray[Any]]:
    drawn = rng.normal(size=(3, count))
    columns = {}
    for name, values in zip(("age", "income", "weight"), drawn, strict=True):
        empty = rng.random(count) < 0.03
        columns[name] = [
            str(rng.choice(NOTHING)) if gone else f"{value:.3f}"
            for gone, value in zip(empty, values, strict=True)
        ]
    return columns, drawn.sum(0)


def _dates(rng: np.random.Generator, count: int) -> tuple[Columns, NDArray[Any]]:
    minutes = rng.integers(0, 730 * 1440, (4, count))
    start = datetime(2023, 1, 1)
    forms = ["%Y-%m-%d %H:%M", "%d.%m.%Y", "%m/%d/%Y %I:%M %p", "%H:%M"]
    names = ["iso", "german", "american", "time"]
    columns = {
        name: [(start + timedelta(minutes=m)).strftime(form) for m in own.tolist()]
        for name, form, own in zip(names, forms, minutes, strict=True)
    }
    day = minutes / (730 * 1440)
    return columns, day[0] + day[1] + day[2] + (minutes[3] % 1440) / 1440


def _ids(rng: np.random.Generator, count: int) -> tuple[Columns, NDArray[Any]]:
    code, account = rng.integers(0, 40, count), rng.integers(0, 30, count)
    return {
        "row": [str(k + 1) for k in range(count)],
        "code": [f"{value:05}" for value in code],
        "account": [str(12_345_678_901_234_567 + int(value)) for value in account],
    }, (code % 5 > 2) * 1.0 + (account % 3 == 1)


def _truths(rng: np.random.Generator, count: int) -> tuple[Columns, NDArray[Any]]:
    drawn = rng.random((len(TRUTHS), count)) < 0.5
    columns = {
        name: ["" if rng.random() < 0.05 else pair[0 if v else 1] for v in values]
        for (name, pair), values in zip(TRUTHS.items(), drawn, strict=True)
    }
    return columns, drawn.sum(0) + 0.5 * drawn[0]


def _quoted(rng: np.random.Generator, count: int) -> tuple[Columns, NDArray[Any]]:
    x, kind = rng.normal(size=count), rng.integers(0, 3, count)
    words = np.array(['pipe, 5"', "two\nlines", 'he said "no"'])
    return {"what": words[kind].tolist(), "x": [f"{v:.3f}" for v in x]}, (
        x + 2.0 * (kind == 0)
    )


def _texts(rng: np.random.Generator, count: int) -> tuple[Columns, NDArray[Any]]:
    good, price = rng.random(count) < 0.5, rng.normal(size=count)
    notes = []
    for own in good.tolist():
        told = rng.choice(GOOD if own else BAD, 2, replace=False).tolist()
        notes.append(", ".join(rng.permutation([*told, *rng.choice(FILLER, 3)])))
    return {"price": [f"{v:.2f}" for v in price], "note": notes}, price + 3.0 * good


def _measures(rng: np.random.Generator, count: int) -> tuple[Columns, NDArray[Any]]:
    """What people measure and write in ways that no reader here knows."""
    kilos, some, hours = np.exp(rng.normal(2, 1, (3, count)))
    months = rng.integers(0, 12, count)
    names = ["Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August"]
    names += ["September", "Oktober", "November", "Dezember"]
    return {
        "unit": [f"{v:.1f} kg" for v in kilos],
        "limit": ["<5" if v < 5 else f"{v:.1f}" for v in some],
        "span": [f"{int(v)} h {int(v * 60) % 60} min" for v in hours],
        "day": [f"{rng.integers(1, 29)}. {names[k]} 2024" for k in months],
    }, np.log(kilos) + np.log(some) + np.log(hours) + months / 6


def _written(
    columns: Mapping[str, Sequence[str]], separator: str = ",", end: str = ""
) -> str:
    file = io.StringIO()
    writer = csv.writer(file, delimiter=separator, lineterminator=f"{end}\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return file.getvalue()


def _untidy(columns: Mapping[str, Sequence[str]], end: str, ragged: bool) -> str:
    names, _, rows = _written(columns, end=end).partition("\n")
    names = names.removesuffix(end)
    return f"{names}\n\n{rows}\n" + ("7\n1,2,3,4,5,6,7\n" if ragged else "")


# What is drawn, and how it is written: as bytes.
EXPORTS: dict[str, tuple[Draw, Callable[[Columns], bytes]]] = {
    "pandas index": (_lines, lambda c: _written(c).encode()),
    "Excel, decimal commas": (_german, lambda c: _written(c, ";").encode("cp1252")),
    "BOM and sep=;": (
        _words,
        lambda c: f"sep=;\n{_written(c, ';')}".encode("utf-8-sig"),
    ),
    "Latin-1": (_words, lambda c: _written(c).encode("latin-1")),
    "UTF-16, tabs": (_words, lambda c: _written(c, "\t").encode("utf-16")),
    "amounts": (_amounts, lambda c: _written(c).encode()),
    "words for empty": (_gaps, lambda c: _written(c).encode()),
    "dates": (_dates, lambda c: _written(c).encode()),
    "ids": (_ids, lambda c: _written(c).encode()),
    "booleans": (_truths, lambda c: _written(c).encode()),
    "quotes, commas at ends": (_quoted, lambda c: _untidy(c, ",", False).encode()),
    "ragged rows": (_quoted, lambda c: _untidy(c, "", True).encode()),
    "free text": (_texts, lambda c: _written(c).encode()),
    "measures": (_measures, lambda c: _written(c).encode()),
}


def draw(name: str, rng: np.random.Generator, count: int, *, fresh: bool) -> Columns:
    """Draw the columns of an export, with a label that they tell but for some noise.

    Rows that are `fresh` come in no order, and are numbered as they come.
    """
    columns, score = EXPORTS[name][0](rng, count)
    high = (score > np.median(score)) ^ (rng.random(count) < NOISE)
    order = rng.permutation(count) if fresh else np.arange(count)
    named = {**columns, "label": np.where(high, "high", "low").tolist()}
    return {
        name: cells if name in ("", "row") else [cells[k] for k in order]
        for name, cells in named.items()
    }


def write(name: str, columns: Columns) -> bytes:
    """Write an export as the program does that it comes from."""
    return EXPORTS[name][1](columns)
