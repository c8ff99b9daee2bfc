"""How long the demo's build takes, stage by stage, with nothing cached.

python -m benchmarks.index.bench_demo            prints a table
python -m benchmarks.index.bench_demo --json     one JSON object, for the record
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from polydom.indexer import build

from ..data.stages import Stages
from ..machine import describe
from ..places import DEMO

REPEATS = 3


def time_build() -> dict[str, float]:
    """Seconds of each stage of one build and of the rest, and the file's megabytes."""
    stages = Stages()
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "digits.pdx")
        start = time.perf_counter()
        build(DEMO, output=output, cache=Path(folder, "cache"), progress=stages)
        total = time.perf_counter() - start
        size = output.stat().st_size
    rest = total - sum(stages.seconds.values())
    return {**stages.seconds, "the rest": rest, "total": total, "MB": size / 1e6}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    args = parser.parse_args()
    runs = [time_build() for _ in range(args.repeats)]
    medians = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    if args.json:
        print(json.dumps({"machine": describe(), "runs": runs}))
        return 0
    print(describe())
    print(f"{'stage':<22}{'median s':>10}{'min':>8}{'max':>8}")
    for name, median in medians.items():
        column = [run[name] for run in runs]
        print(f"{name:<22}{median:>10.2f}{min(column):>8.2f}{max(column):>8.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
