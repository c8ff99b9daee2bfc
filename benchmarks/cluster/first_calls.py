"""A process that trains one set twice: seconds of each, the first from its start."""

import json
import pickle
import sys
import time


def main() -> None:
    """Read two trainers and a set from standard input, and write the seconds."""
    began_s = time.perf_counter()
    trainers, mask = pickle.loads(sys.stdin.buffer.read())
    seconds = []
    for trainer in trainers:
        assert len([*trainer.qualities([mask])]) == 1
        seconds.append(time.perf_counter() - began_s)
        began_s = time.perf_counter()
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
