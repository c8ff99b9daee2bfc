"""YDF's part of `trees`, run by the interpreter that has YDF.

python benchmarks/peers/ydf_timer.py PLACE wall|cpu

PLACE/rows.npz holds X, y and the test rows Xt, and the numbers of trees, of tests on
a path and the rate. A model is trained on X; into PLACE go its trees (ydf_trees.json),
its standalone C++ (ydf_model.h) and its probabilities of Xt (ydf_shares.npy). Then
every line of standard input names what to time once, and a line of seconds per row
answers it, so that the asking process can take turns with other contenders. The
engine's benchmark counts wall seconds: of those the share that the processor was ours.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import ydf

CALLS = 300
ENGINE_S = 0.3  # of the engine's own benchmark

Batch = dict[str, Any]


def main() -> None:
    """Train, say the version, then time what is asked for until the input ends."""
    ydf.verbose(0)
    place = Path(sys.argv[1])
    clock = time.process_time if sys.argv[2] == "cpu" else time.perf_counter
    kept = np.load(place / "rows.npz")
    names = [f"c{j:02}" for j in range(kept["X"].shape[1])]
    model = train(names, kept)
    batch = columns(names, kept["Xt"])
    shares = model.predict(batch, num_threads=1)
    slow = model.predict(batch, use_slow_engine=True, num_threads=1)
    assert np.abs(shares - slow).max() < 1e-5
    np.save(place / "ydf_shares.npy", shares)
    (place / "ydf_model.h").write_text(
        model.to_standalone_cc(classification_output="SCORE")
    )
    trees = [flat(tree.root) for tree in model.iter_trees()]
    bias = float(model.initial_predictions()[0])
    (place / "ydf_trees.json").write_text(json.dumps({"bias": bias, "trees": trees}))
    step = max(1, len(kept["Xt"]) // CALLS)
    singles = [
        columns(names, kept["Xt"][i : i + 1]) for i in range(0, CALLS * step, step)
    ]
    print(ydf.__version__, flush=True)
    for line in sys.stdin:
        print(seconds(line.strip(), model, singles, batch, clock), flush=True)


def train(names: list[str], kept: Any) -> Any:
    """Boost as many trees as asked for."""
    learner = ydf.GradientBoostedTreesLearner(
        label="label",
        features=[ydf.Feature(name, ydf.Semantic.NUMERICAL) for name in names],
        num_trees=int(kept["trees"]),
        max_depth=int(kept["depth"]) + 1,  # the root counts
        shrinkage=float(kept["rate"]),
        validation_ratio=0.0,
        early_stopping="NONE",
        num_threads=1,
    )
    model: Any = learner.train(columns(names, kept["X"]) | {"label": kept["y"]})
    assert model.num_trees() == kept["trees"]
    return model


def columns(names: list[str], X: Any) -> Batch:
    """Cut rows into named columns, each in one piece."""
    return dict(zip(names, np.ascontiguousarray(X.T), strict=True))


def flat(root: Any) -> dict[str, list[Any]]:
    """Spell out a tree in the fields of `xgboost_file.FIELDS`."""
    nodes: list[list[Any]] = []

    def add(node: Any) -> int:
        i = len(nodes)
        if node.is_leaf:
            nodes.append([-1, -1, 0, node.value.value])
            return i
        test = node.condition
        assert type(test).__name__ == "NumericalHigherThanCondition"
        nodes.append([-1, -1, test.attribute, test.threshold])
        nodes[i][:2] = add(node.neg_child), add(node.pos_child)
        return i

    add(root)
    left, right, inputs, conditions = map(list, zip(*nodes, strict=True))
    return {
        "left_children": left,
        "right_children": right,
        "split_indices": inputs,
        "split_conditions": conditions,
    }


def seconds(
    what: str,
    model: Any,
    singles: list[Batch],
    batch: Batch,
    clock: Callable[[], float],
) -> float:
    """Time a row of `one` call each, of `many`, or by the `engine`'s own benchmark."""
    if what.startswith("engine"):
        start, began = clock(), time.perf_counter()
        found = model.benchmark(
            batch,
            benchmark_duration=ENGINE_S,
            warmup_duration=ENGINE_S / 5,
            batch_size=int(what.split()[1]),
            num_threads=1,
        )
        share = (clock() - start) / (time.perf_counter() - began)
        return float(found.duration_per_example) * share
    if what == "one":
        model.predict(singles[0], num_threads=1)
        start = clock()
        for row in singles:
            model.predict(row, num_threads=1)
        return (clock() - start) / len(singles)
    start = clock()
    model.predict(batch, num_threads=1)
    return (clock() - start) / len(next(iter(batch.values())))


if __name__ == "__main__":
    main()
