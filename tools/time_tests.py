"""Seconds that tests took by file and by folder, from what pytest writes.

    python tools/time_tests.py build/times/*.xml

Each file has a column: tests that run compiled, and those that run interpreted too.
"""

import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

MOST = 25
Seconds = dict[str, float]


def read_seconds(report: Path) -> Seconds:
    """Seconds of each file of tests, with what was set up for them."""
    seconds: Seconds = {}
    for case in ElementTree.parse(report).iter("testcase"):
        file = case.get("classname", "").replace(".", "/")
        seconds[file] = seconds.get(file, 0.0) + float(case.get("time", "0"))
    return seconds


def sum_folders(seconds: Seconds) -> Seconds:
    """Seconds of each folder, without those below it."""
    folders: Seconds = {}
    for file, taken in seconds.items():
        folder = file.rpartition("/")[0]
        folders[folder] = folders.get(folder, 0.0) + taken
    return folders


def print_table(runs: dict[str, Seconds], most: int | None = None) -> None:
    """Print seconds by run and name, the most of all runs together first."""
    total: Counter[str] = Counter()
    for seconds in runs.values():
        total.update(seconds)
    print(*(f"{run:>12}" for run in runs))
    for name, _ in total.most_common(most):
        print(*(f"{seconds.get(name, 0.0):12.1f}" for seconds in runs.values()), name)


def main() -> None:
    """Print the slowest files, then all folders."""
    runs = {path.stem: read_seconds(path) for path in map(Path, sys.argv[1:])}
    print_table(runs, MOST)
    print()
    print_table({run: sum_folders(seconds) for run, seconds in runs.items()})


if __name__ == "__main__":
    main()
