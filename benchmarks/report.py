"""How each benchmark is asked, and how it answers: tables, Markdown, or one object."""

import argparse
import json
import math
import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

from . import places

PACKAGES = ("numpy", "numba", "scikit-learn", "uvicorn", "fastapi")
CORES = os.sched_getaffinity(0) if hasattr(os, "sched_setaffinity") else set()
LOAD = os.getloadavg()[0]  # before anything was measured
ABOUT = ("date", "machine", "load")  # what every answer begins with


def options(module: str, *, data: bool = False) -> argparse.ArgumentParser:
    """Read the options that every benchmark has, for the module of this name.

    Parameters
    ----------
    data
        Whether it reads data sets: then `--data-folder` says where they are.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks {module.rpartition('.')[2]}",
        description=sys.modules[module].__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON object")
    form.add_argument("--markdown", action="store_true", help="print Markdown tables")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="little of everything, to see that it runs; its numbers mean nothing",
    )
    if data:
        folder = places.data_folder()
        parser.add_argument(
            "--data-folder",
            type=places.use,
            default=folder,
            help=f"of the data sets; default: {folder}",
        )
    return parser


def need(given: argparse.Namespace, *names: str) -> None:
    """End where data sets of these names are not in the folder."""
    for name in names:
        if not (given.data_folder / name).is_dir():
            sys.exit(
                f"no data set {name!r} in {given.data_folder}; "
                f"try: python -m benchmarks.data.fetch {name}"
            )


def pin(core: int | None = None) -> None:
    """Stay on one core, the last if none is named, where processes can be pinned."""
    if CORES:
        os.sched_setaffinity(0, {max(CORES) if core is None else core})


def unpin() -> None:
    """Go on all cores again that this process began with."""
    if CORES:
        os.sched_setaffinity(0, CORES)


def about() -> dict[str, Any]:
    """The date, the machine, and how busy it was before anything was measured."""
    facts = (date.today().isoformat(), describe(), LOAD)
    return dict(zip(ABOUT, facts, strict=True))


def tell(facts: Mapping[str, Any], given: argparse.Namespace) -> None:
    """Print the date, the machine and the facts, as the options ask for."""
    facts = {**about(), **facts}
    if given.json:
        print(json.dumps(facts))
        return
    for name, value in facts.items():
        show(name, value, given.markdown)


def show(name: str, value: Any, markdown: bool = False) -> None:
    """Print a table for rows or for named rows, a line for each fact, or one line."""
    if isinstance(value, Mapping):
        rows = [row for row in value.values() if isinstance(row, Mapping)]
        if rows and len(rows) == len(value):
            value = [{"": key, **row} for key, row in value.items()]
        elif markdown:
            value = [{"": key, "value": fact} for key, fact in value.items()]
    if isinstance(value, Mapping):
        print(f"\n{name}")
        for key, fact in value.items():
            print(f"    {key:<{max(map(len, value))}}  {cell(fact)}")
    elif isinstance(value, list) and value and isinstance(value[0], Mapping):
        print(f"\n{name}\n" if markdown else f"\n{name}")
        (print_markdown if markdown else print_table)(value)
    else:
        print(f"{name}: {cell(value)}")


def print_table(rows: Iterable[Mapping[str, Any]]) -> None:
    """Print rows below the names of their columns, numbers to the right."""
    names, words, lines = _columns(rows)
    widths = [max(map(len, column)) for column in zip(names, *lines, strict=True)]
    for line in (names, *lines):
        parts = zip(line, widths, words, strict=True)
        print("  ".join(f"{c:{'<' if w else '>'}{n}}" for c, n, w in parts).rstrip())


def print_markdown(rows: Iterable[Mapping[str, Any]]) -> None:
    """Print rows as a table of Markdown."""
    print("\n".join(markdown_lines(rows)))


def markdown_lines(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of a table of Markdown."""
    names, words, lines = _columns(rows)
    yield f"| {' | '.join(names)} |"
    yield f"|{'|'.join('---' if word else '---:' for word in words)}|"
    for line in lines:
        yield f"| {' | '.join(line)} |"


def _columns(
    rows: Iterable[Mapping[str, Any]],
) -> tuple[list[str], list[bool], list[list[str]]]:
    """Names of columns, whether each holds words, and the cells of each row."""
    rows = list(rows)
    names = list(dict.fromkeys(name for row in rows for name in row))
    words = [any(isinstance(row.get(name), str) for row in rows) for name in names]
    return names, words, [[cell(row.get(name)) for name in names] for row in rows]


def cell(value: Any) -> str:
    """Write numbers in four digits, nothing for None."""
    if isinstance(value, float):
        whole = math.isfinite(value) and abs(value) >= 1e4
        return f"{value:,.0f}" if whole else f"{value:.4g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else str(value)


def describe() -> str:
    """One line: processor, cores, Python and package versions."""
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return (
        f"{_processor()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, {versions}"
    )


def slug() -> str:
    """The machine as a file's name: amd-epyc-2-cores."""
    words = re.findall(r"[a-z0-9.]+", _processor().lower())
    return "-".join([*words, str(os.cpu_count()), "cores"])


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if "model name" in line]
    return names[0] if names else platform.machine()
