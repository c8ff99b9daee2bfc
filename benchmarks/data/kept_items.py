"""Labelled items: those that an index is built of, and those kept to report on.

A quarter of all groups, by checksum, is never shown to the build.
"""

import hashlib
import io
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..places import data_folder
from . import digits
from .bundled import load_tumours
from .scenes import load
from .tables import Split, load_adult

FTI_TESTS = ("TT4", "T4U")  # what the last column is computed from
TEXT_FEATURES = [
    "text_length",
    "punctuation",
    "casing",
    "hashed_words",
    "type_token",
    "readability",
    "hashed_ngrams",
]

Labelled = tuple[bytes | str | dict[str, float], str, str]


def kept(group: str) -> bool:
    """Say whether a group is kept from the build."""
    return hashlib.sha256(group.encode()).digest()[0] < 64


def built(group: str) -> bool:
    """Say whether it is not."""
    return not kept(group)


def films() -> Iterator[Labelled]:
    """Yield the reviews of films: text, "pos" or "neg", and the file's name."""
    with tarfile.open(data_folder() / "polarity" / "txt_sentoken.tar.xz") as archive:
        for member in archive:
            if member.isfile() and member.name.endswith(".txt"):
                file = archive.extractfile(member)
                assert file is not None
                text = io.TextIOWrapper(file, "latin-1").read()
                yield text, Path(member.name).parent.name, Path(member.name).name


def thyroid_names() -> list[str]:
    """Columns of the thyroid records; the last is computed from two others."""
    return [*thyroid_costs()]


def thyroid_costs() -> dict[str, float]:
    """What each column costs in dollars; FTI takes the two it is computed from."""
    path = data_folder() / "ann_thyroid_costs" / "ann-thyroid.cost"
    pairs = (line.split(":") for line in path.read_text().split())
    costs = {name: float(cost) for name, cost in pairs}
    return costs | {"FTI": sum(costs[test] for test in FTI_TESTS)}


def thyroid_columns() -> list[dict[str, Any]]:
    """Groups of columns for a project: who has FTI has what it is computed from."""
    return [
        {
            "name": name,
            "columns": [name, *FTI_TESTS] if name == "FTI" else [name],
            "cost": {"usd": cost},
        }
        for name, cost in thyroid_costs().items()
    ]


def thyroid_rows(part: str) -> Iterator[tuple[dict[str, float], str, str]]:
    """Yield the records of "train" or "test"."""
    names = thyroid_names()
    path = data_folder() / "ann_thyroid_costs" / f"ann-{part}.data"
    for number, line in enumerate(path.read_text().splitlines()):
        *values, label = line.split()
        yield dict(zip(names, map(float, values), strict=True)), label, str(number)


def adult_rows(part: str) -> Iterator[Labelled]:
    """Yield the records of "train" or "test", categories numbered."""
    return records(load_adult(data_folder()), part)


def tumour_rows(part: str) -> Iterator[Labelled]:
    """Yield the records of "train" or "test"."""
    return records(load_tumours(), part)


def records(split: Split, part: str) -> Iterator[Labelled]:
    """Yield the rows of "train" or "test" as records of x0, x1, ..."""
    X, y, Xt, yt = split
    rows, codes = (X, y) if part == "train" else (Xt, yt)
    for number, (row, code) in enumerate(zip(rows.tolist(), codes, strict=True)):
        yield {f"x{j}": value for j, value in enumerate(row)}, str(code), str(number)


def build_digits() -> Iterator[Labelled]:
    """Yield the digits that the index is built of."""
    return digits.load(built)


def build_few() -> Iterator[Labelled]:
    """Yield a few small ones."""
    return digits.few(built)


def build_scenes() -> Iterator[Labelled]:
    """Yield the scenes that the index is built of."""
    return (one for one in load() if built(one[2]))


def build_films() -> Iterator[Labelled]:
    """Yield the reviews that the index is built of."""
    return (one for one in films() if built(one[2]))


def build_thyroid() -> Iterator[Labelled]:
    """Yield the training records."""
    return thyroid_rows("train")


def build_tumours() -> Iterator[Labelled]:
    """Yield the training records."""
    return tumour_rows("train")


KEPT: dict[str, Callable[[], Iterator[Labelled]]] = {
    "digits": lambda: digits.load(kept),
    "few": lambda: digits.few(kept),
    "scenes": lambda: (one for one in load() if kept(one[2])),
    "films": lambda: (one for one in films() if kept(one[2])),
    "thyroid": lambda: thyroid_rows("test"),
    "adult": lambda: adult_rows("test"),
    "tumours": lambda: tumour_rows("test"),
}
FOLDERS = {  # of the data folder, which those of these names are read from
    "scenes": "scene15",
    "films": "polarity",
    "thyroid": "ann_thyroid_costs",
    "adult": "adult",
}
