"""Drawn tables of numbers, words, gaps and dates, in files of any length."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

CHUNK = 20_000
WORDS = np.array(["amber", "blue", "green", "rose", "umber", "white"])
FIRST = np.datetime64("2020-01-01T00:00:00")
MINUTES = 2_000_000
GAPS = 0.1
NOISE = 0.5


def write_csv(path: Path, rows: int, columns: int, seed: int = 0) -> None:
    """Write a table of some columns and a `label` as CSV."""
    with path.open("w") as file:
        file.write(",".join([*_names(columns), "label"]) + "\n")
        for chunk in _chunks(rows, columns, seed):
            cells = [_texts(column) for column in chunk.values()]
            file.write("\n".join(map(",".join, zip(*cells, strict=True))) + "\n")


def write_parquet(path: Path, rows: int, columns: int, seed: int = 0) -> None:
    """Write the same table as Parquet, a row group for each chunk of 20,000 rows."""
    import pyarrow
    from pyarrow import parquet

    writer = None
    for chunk in _chunks(rows, columns, seed):
        arrays = {
            name: pyarrow.array(column, from_pandas=True)
            for name, column in chunk.items()
        }
        table = pyarrow.table(arrays)
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def _names(columns: int) -> list[str]:
    return [f"c{k}" for k in range(columns)]


def _chunks(rows: int, columns: int, seed: int) -> Iterator[dict[str, NDArray[Any]]]:
    """Draw some rows at a time: of each column in turn another kind of cells."""
    for start in range(0, rows, CHUNK):
        rng = np.random.default_rng([seed, start])
        count = min(CHUNK, rows - start)
        chunk: dict[str, NDArray[Any]] = {}
        score = rng.normal(scale=NOISE, size=count)
        for k, name in enumerate(_names(columns)):
            drawn = rng.normal(size=count)
            score += drawn / (k + 1)
            chunk[name] = _column(k, drawn, rng)
        chunk["label"] = np.array(["low", "middle", "high"])[
            np.digitize(score, [-0.5, 0.5])
        ]
        yield chunk


def _column(k: int, drawn: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    cells: NDArray[Any] = drawn
    match k % 5:
        case 1:
            cells = np.round(100 * drawn).astype(np.int64)
        case 2:
            cells = WORDS[np.digitize(drawn, [-1.5, -0.5, 0.0, 0.5, 1.5])]
        case 3:
            cells = np.where(rng.random(len(drawn)) < GAPS, np.nan, drawn.round(2))
        case 4:
            minutes = (MINUTES * (np.tanh(drawn) + 1) / 2).astype(np.int64)
            cells = FIRST + minutes * np.timedelta64(60, "s")
    return cells


def _texts(column: NDArray[Any]) -> list[str]:
    if column.dtype.kind == "f":
        return ["" if value != value else f"{value:.8g}" for value in column.tolist()]
    return [str(one) for one in column.astype(str).tolist()]
