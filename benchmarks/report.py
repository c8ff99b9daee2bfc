"""How each script is asked, and how it answers: by tables, or by one JSON object."""

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .places import DATA

PACKAGES = ("numpy", "numba", "scikit-learn", "uvicorn", "fastapi")
CORES = os.sched_getaffinity(0) if hasattr(os, "sched_setaffinity") else set()


def options(text: str | None, *, data: bool = False) -> argparse.ArgumentParser:
    """Read the options that every script has; `data`: the folder of the data sets."""
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    if data:
        told = f"folder of the data sets; default: {DATA}"
        parser.add_argument("data", type=Path, nargs="?", default=DATA, help=told)
    return parser


def need(folder: Path) -> None:
    """End the script where the data are not here."""
    if not folder.is_dir():
        sys.exit(f"the data are not here: {folder} is no folder")


def pin(core: int | None = None) -> None:
    """Stay on one core, the last if none is named, where processes can be pinned."""
    if CORES:
        os.sched_setaffinity(0, {max(CORES) if core is None else core})


def unpin() -> None:
    """Go on all cores again that this process began with."""
    if CORES:
        os.sched_setaffinity(0, CORES)


def tell(facts: Mapping[str, Any], as_json: bool) -> None:
    """Print the machine and the facts."""
    facts = {"machine": describe(), **facts}
    if as_json:
        print(json.dumps(facts))
        return
    for name, value in facts.items():
        show(name, value)


def show(name: str, value: Any) -> None:
    """Print a table for rows or for named rows, a line for each fact, or one line."""
    if isinstance(value, Mapping):
        rows = [row for row in value.values() if isinstance(row, Mapping)]
        if rows and len(rows) == len(value):
            value = [{"": key, **row} for key, row in value.items()]
    if isinstance(value, Mapping):
        print(f"\n{name}")
        for key, fact in value.items():
            print(f"    {key:<{max(map(len, value))}}  {cell(fact)}")
    elif isinstance(value, list) and value and isinstance(value[0], Mapping):
        print(f"\n{name}")
        print_table(value)
    else:
        print(f"{name}: {cell(value)}")


def print_table(rows: Iterable[Mapping[str, Any]]) -> None:
    """Print rows below the names of their columns, numbers to the right."""
    rows = list(rows)
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [names, *([cell(row.get(name)) for name in names] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    words = [any(isinstance(row.get(name), str) for row in rows) for name in names]
    for line in lines:
        parts = zip(line, widths, words, strict=True)
        print("  ".join(f"{c:{'<' if w else '>'}{n}}" for c, n, w in parts).rstrip())


def cell(value: Any) -> str:
    """Write numbers in four digits, nothing for None."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else str(value)


def describe() -> str:
    """One line: processor, cores, Python and package versions."""
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return (
        f"{_processor()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, {versions}"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if "model name" in line]
    return names[0] if names else platform.machine()
