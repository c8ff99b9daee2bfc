"""Lattices in TensorFlow, by the interpreter that has it: timed when told to.

python benchmarks/peers/lattice_tensorflow.py FOLDER

FOLDER holds what `lattice_rows.hand_over` wrote. First one line of JSON with every
contender's answers is printed; then, for each line read, the microseconds of one row.
Lattices and calibrators are TensorFlow Lattice's own layers, put together as its
calibrated lattice ensembles are: a calibrator layer per column with a unit for each
lattice that reads it, and one lattice layer with a unit per lattice.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_USE_LEGACY_KERAS": "1"}

import tensorflow as tf
import tensorflow_lattice as tfl

ROUND_S = 0.005  # one round of one contender takes about this
Call = Callable[[Any], Any]


class Parts:
    """The arrays of one ensemble of T lattices over S of d columns."""

    def __init__(self, folder: Path) -> None:
        self.knots = np.load(folder / "knots.npy")  # (d, P)
        # Its first input is the one that counts most in a vertex's number.
        self.inputs = np.load(folder / "inputs.npy")[:, ::-1]  # (T, S)
        self.calibrations = np.load(folder / "calibrations.npy")[:, ::-1]  # (T, S, P)
        self.vertices = np.load(folder / "vertices.npy")  # (T, 2^S)
        self.rows = np.load(folder / "rows.npy")  # (N, d)
        simplex = bool(np.load(folder / "simplex.npy")[0])
        self.interpolation = "simplex" if simplex else "hypercube"

    def calibrate(self, rows: Any) -> Any:
        """Calibrated inputs (1, T, S) of one row by layers."""
        T, S = self.inputs.shape
        reads, curves = self.inputs.ravel(), self.calibrations.reshape(T * S, -1)
        order = np.argsort(reads, kind="stable")
        parts = []
        for column in np.unique(reads):
            own = curves[reads == column]
            layer = tfl.layers.PWLCalibration(self.knots[column], units=len(own))
            parts.append(layer(rows[:, column : column + 1]))
            rises = np.diff(own, axis=1, prepend=0.0)
            layer.set_weights([rises.T.astype(np.float32)])
        gathered = tf.gather(tf.concat(parts, axis=1), np.argsort(order), axis=1)
        return tf.reshape(gathered, (1, T, S))

    def calibrated(self) -> Any:
        """Calibrated inputs (N, T, S) of all rows, for lattices without calibrators."""
        T, S = self.inputs.shape
        out = np.empty((len(self.rows), T, S), np.float32)
        for t in range(T):
            for s in range(S):
                j = self.inputs[t, s]
                values, curve = self.rows[:, j], self.calibrations[t, s]
                out[:, t, s] = np.interp(values, self.knots[j], curve)
        return out

    def lattices(self) -> Any:
        """The layer that takes calibrated inputs (1, T, S) to T values."""
        T, S = self.inputs.shape
        layer = tfl.layers.Lattice([2] * S, T, interpolation=self.interpolation)
        layer.build((1, T, S))
        layer.set_weights([self.vertices.T.astype(np.float32)])
        return layer


def contenders(parts: Parts) -> dict[str, tuple[Call, Any]]:
    """What can be called, and the rows that it is called with, one at a time."""
    layer = parts.lattices()
    row = tf.keras.Input(batch_shape=(1, parts.rows.shape[1]))
    whole = tf.keras.Model(row, tf.reduce_sum(layer(parts.calibrate(row)), axis=1))
    inputs = tf.keras.Input(batch_shape=(1, *parts.inputs.shape))
    alone = tf.keras.Model(inputs, tf.reduce_sum(layer(inputs), axis=1))
    made = {}
    for kind, model, rows in (
        ("", whole, parts.rows),
        (", calibrated before", alone, parts.calibrated()),
    ):
        spec = tf.TensorSpec((1, *rows.shape[1:]), tf.float32)
        for name, options in (
            ("tf.function", {}),
            ("tf.function, XLA", {"jit_compile": True}),
        ):
            graph = tf.function(model, input_signature=[spec], **options)
            made[name + kind] = (by_graph(graph.get_concrete_function()), rows)
        plain = tf.function(model, input_signature=[spec]).get_concrete_function()
        convert = tf.lite.TFLiteConverter.from_concrete_functions([plain], model)
        made["TFLite" + kind] = (by_interpreter(convert.convert()), rows)
    return made


def by_graph(function: Any) -> Call:
    """Call a concrete function with one row as an array."""
    return lambda row: function(tf.constant(row))


def by_interpreter(content: bytes) -> Call:
    """Call TFLite's interpreter, of one thread, with one row as an array."""
    lite = tf.lite.Interpreter(model_content=content, num_threads=1)
    lite.allocate_tensors()
    into = lite.get_input_details()[0]["index"]
    out = lite.get_output_details()[0]["index"]

    def call(row: Any) -> Any:
        lite.set_tensor(into, row)
        lite.invoke()
        return lite.get_tensor(out)

    return call


def value(answer: Any) -> float:
    """The one number of an answer."""
    one = answer[0] if isinstance(answer, list | tuple) else answer
    return float(np.asarray(one).ravel()[0])


def mean_s(call: Call, rows: Any, count: int = 10, first: int = 0) -> float:
    """Mean seconds of so many calls, each with another row, from `first` on."""
    own = [rows[(first + i) % len(rows)][None] for i in range(count)]
    call(own[-1])
    start = time.perf_counter()
    for row in own:
        call(row)
    return (time.perf_counter() - start) / count


def main() -> None:
    """Answer, then time one round for each line read."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    made = contenders(Parts(Path(sys.argv[1])))
    answers = {
        name: [value(call(row)) for row in np.split(rows, len(rows))]
        for name, (call, rows) in made.items()
    }
    print(json.dumps({"version": tf.__version__, "answers": answers}), flush=True)
    counts = {name: max(3, int(ROUND_S / mean_s(*one))) for name, one in made.items()}
    for line in sys.stdin:
        rounds = {
            name: 1e6 * mean_s(call, rows, counts[name], int(line))
            for name, (call, rows) in made.items()
        }
        print(json.dumps(rounds), flush=True)


if __name__ == "__main__":
    main()
