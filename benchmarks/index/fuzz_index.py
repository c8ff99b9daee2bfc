"""Whether any edit of an index file can crash a process, or make it break a promise.

python -m benchmarks fuzz_index --count 100000 --seed 1
python -m benchmarks fuzz_index --first 751 --count 1    repeats one edit

Files of every kind are edited, sealed again and loaded; what loads is asked for
look-ups, plans, facts, models' scores and answers, by kernels that check every index
(NUMBA_BOUNDSCHECK). Child processes do it, so that a crash is counted. Edits are drawn
from a seed and their numbers. Ends with 1 where anything went wrong. --quick edits one
kind alone, with kernels as they serve.
"""

import argparse
import json
import mmap
import os
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from .. import report

LONGEST_S = 60.0  # of one edit
LARGEST = 6 << 30  # bytes of address space of a child
QUICK_EDITS = 50
PLACE = struct.Struct("<q")


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark, or what a child does of it."""
    parser = report.options(__name__)
    parser.add_argument("--count", type=int, default=100_000, help="edits")
    parser.add_argument("--first", type=int, default=0, help="number of the first")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="kinds of index, by comma")
    parser.add_argument(
        "--unchecked", action="store_true", help="kernels as they serve"
    )
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.child:
        work(given)
        return
    if given.quick:
        given.count, given.unchecked = min(given.count, QUICK_EDITS), True
    counts = run(given)
    report.tell(counts, given)
    if counts["wrong"]:
        sys.exit(1)


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Start children, and start them again behind the edit at which one died."""
    seen, wrong, kinds = Counter[str](), Counter[str](), Counter[str]()
    first, last = options.first, options.first + options.count
    started_s = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "place").write_bytes(PLACE.pack(first))
        while first < last:
            died = _one_child(options, folder, first, last, seen, wrong, kinds)
            if died is None:
                break
            at = PLACE.unpack((folder / "place").read_bytes())[0]
            wrong[f"{died} (edit {at})"] += 1
            first = at + 1
            _tell(f"edit {at}: {died}")
    return {
        "edits": options.count,
        "seed": options.seed,
        "checked": not options.unchecked,
        "seconds": round(time.monotonic() - started_s),
        "outcomes": dict(seen.most_common()),
        "kinds": dict(sorted(kinds.items())),
        "gone wrong": sum(wrong.values()),
        "wrong": dict(wrong.most_common()),
    }


def _one_child(
    options: argparse.Namespace,
    folder: Path,
    first: int,
    last: int,
    seen: Counter[str],
    wrong: Counter[str],
    kinds: Counter[str],
) -> str | None:
    """Read what one child says until it ends; how it died, if it did."""
    command = [sys.executable, "-m", "benchmarks", "fuzz_index", f"--child={folder}"]
    command += ["--quick"] if options.quick else []
    command += [f"--first={first}", f"--count={last - first}", f"--seed={options.seed}"]
    command += [f"--only={options.only}"]
    checked = {} if options.unchecked else {"NUMBA_BOUNDSCHECK": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | checked
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            said = json.loads(line)
            seen.update(said["seen"])
            kinds.update(said["kinds"])
            wrong.update(said["wrong"])
            for what in said["wrong"]:
                _tell(what)
            _tell(f"{said['done']:,} of {last:,}: {dict(seen)}")
    if child.returncode == 0:
        return None
    if child.returncode == -signal.SIGALRM:
        return f"took more than {LONGEST_S:g} s"
    return f"crashed: {child.returncode}"


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def work(options: argparse.Namespace) -> None:
    """Make the edits of one child, and say every second what came of them."""
    from polydom.features.errors import PolydomError
    from polydom.indexer.index.pdx_file import read_file
    from tests.support.exercise import extractor_of

    resource.setrlimit(resource.RLIMIT_AS, (LARGEST, LARGEST))
    with tempfile.TemporaryDirectory() as name:
        contents = {}
        for kind, path in save_indexes(Path(name), options.quick).items():
            meta, arrays, _ = read_file(path)
            contents[kind] = meta, {n: array.copy() for n, array in arrays.items()}
    names = [n for n in contents if not options.only or n in options.only.split(",")]
    path = options.child / "edited.pdx"
    tallies: dict[str, Counter[str]] = {
        n: Counter() for n in ("seen", "kinds", "wrong")
    }
    told_s = time.monotonic()
    with (options.child / "place").open("r+b") as file:
        place = mmap.mmap(file.fileno(), PLACE.size)
    for number in range(options.first, options.first + options.count):
        place[:] = PLACE.pack(number)
        signal.setitimer(signal.ITIMER_REAL, LONGEST_S)
        name = names[number % len(names)]
        try:
            outcome = one(contents[name], path, options.seed, number, extractor_of)
        except PolydomError as error:
            outcome = f"said {type(error).__name__}"
        except Exception as error:
            outcome = "wrong"
            frame = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(frame.filename).name}:{frame.lineno}"
            text = f"{type(error).__name__} at {where}: {str(error)[:90]}"
            tallies["wrong"][f"{text} (edit {number}, {name})"] += 1
        if outcome.startswith("lie: "):
            tallies["wrong"][f"{outcome} (edit {number}, {name})"] += 1
            outcome = "wrong"
        tallies["seen"][outcome] += 1
        tallies["kinds"][name] += 1
        last = number == options.first + options.count - 1
        if last or time.monotonic() > told_s + 5:
            said = {key: dict(counter) for key, counter in tallies.items()}
            print(json.dumps(said | {"done": number + 1}), flush=True)
            told_s = time.monotonic()
            for counter in tallies.values():
                counter.clear()


def save_indexes(folder: Path, quick: bool) -> dict[str, Path]:
    """Write an index of every kind; their paths by name."""
    from tests.support.zoo import bare_index, save_zoo

    if not quick:
        return save_zoo(folder)
    bare_index(pairs=False).save(folder / "bare.pdx")
    return {"bare": folder / "bare.pdx"}


def one(content: Any, path: Path, seed: int, number: int, extractor_of: Any) -> str:
    """Make one edit: how the file was taken."""
    import numpy as np

    from polydom.features.errors import BadIndexFile
    from polydom.indexer.index.index import Index
    from tests.support.edits import edited
    from tests.support.exercise import lies

    draw = np.random.default_rng([seed, number])
    # Not in place: arrays of the file before may still be mapped.
    path.unlink(missing_ok=True)
    path.write_bytes(edited(content, draw))
    try:
        index = Index.load(path)
    except BadIndexFile as error:
        return "refused" if len(str(error)) < 600 else "lie: a long refusal"
    found = next(lies(index, draw, extractor_of(index)), None)
    return "served" if found is None else f"lie: {found}"
