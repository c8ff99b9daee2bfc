"""What it takes to operate a server: its start, and memory of workers.

python -m benchmarks operations                  builds the demo's index, about 30 s
python -m benchmarks operations INDEX.pdx        of one that is there
python -m benchmarks operations --parts memory   one part

What each part measures is said in starting.py and worker_memory.py.
"""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .. import report
from . import starting, worker_memory
from .indexes.demo_index import index_file

PARTS: dict[str, Callable[[argparse.Namespace, Path, Path], dict[str, Any]]] = {
    "start": starting.measure,
    "memory": worker_memory.measure,
}


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__)
    parser.add_argument("index", nargs="?", type=Path)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=[*PARTS])
    given = parser.parse_args(arguments)
    facts: dict[str, Any] = {}
    with (
        index_file(given.index, given.quick) as path,
        tempfile.TemporaryDirectory() as folder,
    ):
        for part in given.parts:
            facts |= PARTS[part](given, path, Path(folder))
    report.tell(facts, given)
