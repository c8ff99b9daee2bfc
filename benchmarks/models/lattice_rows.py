"""One row through random lattices: ours, the floor, and TensorFlow's, in turn."""

import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.models import Schedule
from polydom.models.early_exit.early_exits import EarlyExit
from polydom.models.early_exit.ensemble import as_ensemble
from polydom.models.lattices.kernels.plain import PARTS
from polydom.models.lattices.lattices import Lattices, make_lattices
from polydom.models.scoring.classifier import Classifier, Head
from polydom.models.scoring.kernels.link import LOGISTIC, POSITIVE
from polydom.models.scoring.preparation import plain
from polydom.models.scoring.scorer import PackedTerms

from ..places import ROOT
from .kernels.lattice_floor import multiply_add, read_all, read_some

COLUMNS, KEYPOINTS, CALLS = 30, 20, 300
TOLERANCE = 2e-3  # of sums of 500 values near 1 in float32
LANES = 8  # in double precision, of what the floor's kernels add up at once

OURS = "polydom, from Python"

Call = Callable[[], float]  # one round: microseconds of one row


@dataclass(frozen=True)
class Effort:
    """Lattices of a model, rounds, and the models: their inputs, and if simplices."""

    lattices: int
    rounds: int
    models: tuple[tuple[int, bool], ...]


FULL = Effort(500, 25, ((4, False), (4, True), (8, False), (8, True)))
QUICK = Effort(20, 1, ((4, True),))


def draw_lattices(
    count: int, inputs: int, simplex: bool
) -> tuple[Lattices, NDArray[np.float32]]:
    """Random lattices over so many of 30 normal columns, and rows."""
    draw = np.random.default_rng(0)
    values = draw.normal(size=(2000, COLUMNS)).astype(np.float32)
    knots = np.quantile(values, np.linspace(0, 1, KEYPOINTS), axis=0).T
    lattices = make_lattices(
        plain(np.arange(COLUMNS)),
        knots.astype(np.float32).astype(np.float64),
        np.stack([draw.permutation(COLUMNS)[:inputs] for _ in range(count)]),
        np.sort(draw.random((count, inputs, KEYPOINTS + 1)), axis=2),
        draw.normal(size=(count, 1, 2**inputs)),
        np.zeros(1),
        simplex,
    )
    rows = draw.normal(size=(CALLS, COLUMNS)).astype(np.float32)
    return lattices.with_packed(), rows


def time_models(tensorflow: str | None, quick: bool) -> list[dict[str, Any]]:
    """All of the models, one after the other."""
    effort = QUICK if quick else FULL
    return [
        row for model in effort.models for row in time_model(effort, *model, tensorflow)
    ]


def time_model(
    effort: Effort, inputs: int, simplex: bool, tensorflow: str | None
) -> list[dict[str, Any]]:
    """Microseconds of one row for each contender: the least of its rounds' means.

    Rounds take some milliseconds each, and contenders take them in turn.
    """
    lattices, X = draw_lattices(effort.lattices, inputs, simplex)
    ours, used = own_calls(lattices, X)
    ours |= floors(lattices, X)
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        hand_over(lattices, X, Path(folder))
        peer = None if tensorflow is None else Peer(tensorflow, Path(folder))
        if peer is not None:
            peer.check(lattices.raw(X)[:, 0])
        for k in range(effort.rounds):
            for name, call in ours.items():
                times.setdefault(name, []).append(call())
            for name, us in {} if peer is None else peer.round(k * CALLS).items():
                times.setdefault(name, []).append(us)
        if peer is not None:
            peer.stop()
    return [
        {
            "inputs": inputs,
            "interpolation": "simplex" if simplex else "multilinear",
            "name": name,
            "us": min(taken),
            "times ours": min(taken) / min(times[OURS]),
            "lattices": used if "early" in name else effort.lattices,
        }
        for name, taken in times.items()
    ]


def own_calls(
    lattices: Lattices, X: NDArray[np.float32]
) -> tuple[dict[str, Call], float]:
    """Our contenders, and how many lattices the early exit uses on average."""
    model = Classifier(lattices, Head(np.arange(2), LOGISTIC, POSITIVE, 1))
    ensemble = as_ensemble(model)
    size = ensemble.size
    sums = np.abs(ensemble.base_scores(X).cumsum(axis=1))
    # The reach at which a quarter of the lattices is used on average.
    reach = min(
        np.quantile(sums, np.linspace(0.05, 0.95, 60)),
        key=lambda r: abs(_used(sums, r) - size / 4),
    )
    # natural order, limits one value apart on both sides
    limits = np.full(size, float(reach))
    schedule = Schedule(np.arange(size), -limits, limits, ensemble.threshold)
    early = ensemble.early_exit(schedule)
    assert isinstance(early, EarlyExit)
    packed, exits = lattices.packed, early.packed
    assert packed is not None
    assert isinstance(exits, PackedTerms)
    rows, plainly = list(X), replace(lattices, packed=None)
    calls = {
        OURS: each(model.choose, rows),
        "polydom, compiled": whole(lambda: packed.follow(X), len(X)),
        "polydom, lattice by lattice, compiled": whole(lambda: plainly.raw(X), len(X)),
        "polydom, early exit, from Python": each(early.choose, rows),
        "polydom, early exit, compiled": whole(lambda: exits.follow(X), len(X)),
    }
    return calls, float(early.choices(X)[1].mean())


def _used(sums: NDArray[np.float64], reach: float) -> float:
    over = sums > reach
    used = np.where(over.any(axis=1), over.argmax(axis=1) + 1, sums.shape[1])
    return float(used.mean())


def each(call: Callable[[Any], Any], rows: list[Any]) -> Call:
    """Time one call per row."""

    def timed() -> float:
        start = time.perf_counter()
        for row in rows:
            call(row)
        return 1e6 * (time.perf_counter() - start) / len(rows)

    return timed


def whole(call: Callable[[], Any], count: int) -> Call:
    """Time one call that does the work of so many rows, after another one."""

    def timed() -> float:
        call()
        start = time.perf_counter()
        call()
        return 1e6 * (time.perf_counter() - start) / count

    return timed


def touched(lattices: Lattices) -> tuple[int, int]:
    """Vertices that a row reads, and multiply-adds between them."""
    T, S = lattices.inputs.shape
    if lattices.simplex:
        return T * (S + 1), T * (S + 1)
    return T * 2**S, T * (2**S - 1)


def floors(lattices: Lattices, X: NDArray[np.float32]) -> dict[str, Call]:
    """The least a row could take: its vertices read, and as much multiplied and added.

    Of simplices the places that rows really read, known beforehand; of all vertices,
    in a line. Nothing is calibrated, sorted or looked up.
    """
    vertices, products = touched(lattices)
    table = lattices.vertices.ravel()
    steps = -(-products // (8 * LANES))  # eight chains of vectors
    calls = {
        "floor, multiply-adds": whole(lambda: multiply_add(len(X) * steps), len(X))
    }
    if lattices.simplex:
        places = np.stack([simplex_places(lattices, row) for row in X[:40]])
        assert places.shape[1] == vertices
        calls["floor, vertices read"] = whole(
            lambda: read_some(table, places), len(places)
        )
    else:
        calls["floor, vertices read"] = whole(lambda: read_all(table, 100), 100)
    return calls


def simplex_places(lattices: Lattices, row: NDArray[np.float32]) -> NDArray[np.int32]:
    """Vertices (T (S + 1),) that one row reads, on the way of each lattice."""
    T, S = lattices.inputs.shape
    places = np.zeros((T, S + 1), np.int64)
    curves = lattices.calibrations[:, :, :-2] / PARTS
    for t in range(T):
        own = lattices.inputs[t]
        at = [
            np.interp(row[j], lattices.knots[j], curves[t, s])
            for s, j in enumerate(own)
        ]
        places[t, 1:] = (1 << np.argsort(-np.array(at), kind="stable")).cumsum()
    places += (np.arange(T) << S)[:, None]
    return places.ravel().astype(np.int32)


def hand_over(lattices: Lattices, X: NDArray[np.float32], folder: Path) -> None:
    """Write the same numbers for `lattice_tensorflow.py`, in single precision."""
    arrays: dict[str, NDArray[Any]] = {
        "knots": lattices.knots,
        "inputs": lattices.inputs,
        "calibrations": lattices.calibrations[:, :, :-2] / PARTS,
        "vertices": lattices.vertices[:, 0] * lattices.unit,
    }
    for name, array in arrays.items():
        kind = np.int32 if name == "inputs" else np.float32
        np.save(folder / f"{name}.npy", array.astype(kind))
    np.save(folder / "rows.npy", X)
    np.save(folder / "simplex.npy", np.array([lattices.simplex]))


class Peer:
    """TensorFlow in a process of its own, on the same core, that times when told to."""

    def __init__(self, python: str, folder: Path) -> None:
        script = ROOT / "benchmarks" / "peers" / "lattice_tensorflow.py"
        self.process = subprocess.Popen(
            [python, str(script), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.ready = self._read()

    def check(self, raw: NDArray[np.float64]) -> None:
        """Stop unless every contender answers as ours does."""
        for name, answers in self.ready["answers"].items():
            gap = float(np.abs(np.array(answers) - raw).max())
            if not gap <= TOLERANCE:
                self.stop()
                raise AssertionError(f"{name}: answers differ by {gap:g}")

    def round(self, first: int) -> dict[str, float]:
        """One round of all its contenders, from row `first` on: microseconds."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{first}\n")
        self.process.stdin.flush()
        times: dict[str, float] = self._read()
        return times

    def stop(self) -> None:
        """End it: there is nothing more to read."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()

    def _read(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"TensorFlow ended: {self.process.wait()}")
        return json.loads(line)
