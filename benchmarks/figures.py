"""Figures, drawn without a screen."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def figure_at(
    path: Path, rows: int = 1, columns: int = 1, **options: Any
) -> Iterator[tuple[Any, Any]]:
    """A figure and its panels (a single one alone), written to `path` at the end."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams["svg.hashsalt"] = path.stem  # the same bytes in every run
    path.parent.mkdir(parents=True, exist_ok=True)
    size = options.pop("figsize", (8, 5))
    figure = Figure(figsize=size, layout="constrained")
    yield figure, figure.subplots(rows, columns, **options)
    dated = {"Date": None} if path.suffix == ".svg" else None
    figure.savefig(path, dpi=110, metadata=dated)
