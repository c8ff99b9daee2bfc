"""Lattices packed for one row at a time: sixteen lattices side by side."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..scoring.address_table import LINE, lay_table
from ..scoring.kernels.cached_njit import COMPILED
from ..scoring.scorer import PackedTerms
from ..scoring.stopping_rule import Stops
from .kernels.one_row import (
    TABLE,
    decide,
    early,
    early_by_margin,
    early_by_margin_many,
    early_by_margin_part,
    early_many,
    early_one,
    raw,
    raw_many,
)
from .kernels.vector_steps import LANES, STEP

# Limits that let positions between keypoints, and among vertices, fit into 32 bits.
MOST_KEYPOINTS = 2000
MOST_OUTPUTS = 1000
MOST_COLUMNS = 4096  # limit on columns, as calibrated values are on the stack
# Groups of the largest block. The first blocks are smaller, as a row that stops early
# has calibrated its last block as a whole.
MOST_GROUPS = 16

KERNELS = {
    "never": (raw, raw_many, None, None),
    "limits": (decide, early_many, early_one, early),
    "margins": (early_by_margin, early_by_margin_many, None, early_by_margin_part),
}


def pack_lattices(
    lattices: Any, order: NDArray[Any], stops: Stops
) -> PackedTerms | None:
    """Pack `Lattices`, in `order`, for the kernels that evaluate one row at a time.

    Return None if only the kernels of `plain.py` can evaluate the lattices.
    """
    used, inputs = np.unique(lattices.inputs[order], return_inverse=True)
    inputs = inputs.reshape(lattices.inputs.shape)
    (T, S), R = inputs.shape, lattices.outputs
    P = lattices.knots.shape[1]
    if (
        not COMPILED
        or len(lattices.preparation.operations)
        or len(used) > MOST_COLUMNS
        or P > MOST_KEYPOINTS
        or R > MOST_OUTPUTS
    ):
        return None
    knots = lattices.knots[used]
    exchanges = np.array(sorting_network(S), np.int64).reshape(-1, 2)
    arrays: dict[str, NDArray[Any]] = {
        "columns": np.ascontiguousarray(lattices.columns[used], np.int32),
        "knots": knots.T,
        "gaps": np.diff(knots, axis=1).T,
        "exchanges": exchanges * (4 * LANES),
        "vertices": _group(lattices.vertices[order], lattices.simplex),
        **_blocks(inputs, lattices.calibrations[order]),
    }
    blocks = arrays["blocks"]
    table = lay_table(
        TABLE,
        arrays | stops.by_tree(T),
        column_count=len(used),
        keypoint_count=P,
        block_count=len(blocks) - 1,
        group_count=len(arrays["first_of"]),
        exchange_count=len(exchanges),
        lattice_count=T,
        input_count=S,
        output_count=R,
        simplex=lattices.simplex,
        threshold=stops.threshold,
        unit=lattices.unit,
        **_room(len(used), int(blocks[:, -1].max()), S, R),
    )
    start = stops.start(lattices.bias)
    return PackedTerms(table, lattices.width, start, *KERNELS[stops.rule], LANES)


def sorting_network(size: int) -> list[tuple[int, int]]:
    """Return Batcher's network that sorts `size` values, as pairs of positions.

    To sort, take the pairs in order, and swap their two values if the first is smaller.
    In the end, values descend.
    """
    whole = 1 << (size - 1).bit_length()
    steps = []
    p = 1
    while p < whole:
        k = p
        while k:
            for j in range(k % p, whole - k, 2 * k):
                for i in range(j, min(j + k, whole - k)):
                    if i // (2 * p) == (i + k) // (2 * p):
                        steps.append((i, i + k))
            k //= 2
        p *= 2
    return [(i, j) for i, j in steps if j < size]


def _group(vertices: NDArray[np.int32], simplex: bool) -> NDArray[np.int32]:
    """Return the vertices of lattices in groups of LANES, padded with zeros.

    The shape is (groups * LANES, R, V) if `simplex`, else (groups, R, V, LANES).
    """
    T, R, V = vertices.shape
    groups = -(-T // LANES)
    out = np.zeros((groups * LANES, R, V), np.int32)
    out[:T] = vertices
    if not simplex:
        out = out.reshape(groups, LANES, R, V).transpose(0, 2, 3, 1)
    return out


def _blocks(
    inputs: NDArray[np.int64], calibrations: NDArray[np.int32]
) -> dict[str, NDArray[Any]]:
    """Divide groups into blocks, and return the arrays that describe the blocks.

    Within a block, inputs that read the same column are neighbours.
    """
    T, S = inputs.shape
    groups = -(-T // LANES)
    places = np.zeros((groups * LANES, S), np.int32)
    first_of = np.full(groups, -1)
    blocks: list[tuple[int, int, int]] = []
    runs, tables = [], []
    first_group = first_run = first_calibration = 0
    while first_group < groups:
        more = min(max(1, first_group), MOST_GROUPS, groups - first_group)
        own = slice(first_group * LANES, min((first_group + more) * LANES, T))
        columns = inputs[own].ravel()
        order = np.argsort(columns, kind="stable")
        found, starts, counts = np.unique(
            columns[order], return_index=True, return_counts=True
        )
        steps = -(-counts // STEP)
        begins = STEP * np.append(0, steps.cumsum())
        rank = np.arange(len(columns)) - np.repeat(starts, counts)
        place = np.empty(len(columns), np.int32)
        place[order] = np.repeat(begins[:-1], counts) + rank
        places[own] = place.reshape(-1, S)
        pitch = int(begins[-1])
        table = np.zeros((calibrations.shape[2], pitch), np.int32)
        table[:, place] = calibrations[own].reshape(len(columns), -1).T
        first_of[first_group] = len(blocks)
        blocks.append((first_run, first_calibration, pitch))
        runs.append(np.stack([found, begins[:-1], steps], axis=1))
        tables.append(table.ravel())
        first_group += more
        first_run += len(found)
        first_calibration += table.size
    blocks.append((first_run, first_calibration, 0))
    return {
        "first_of": first_of,
        "blocks": np.array(blocks, np.int64),
        "runs": np.concatenate(runs).astype(np.int64),
        "calibrations": np.concatenate(tables),
        "places": places.reshape(groups, LANES, S).transpose(0, 2, 1),
    }


def _room(columns: int, pitch: int, S: int, R: int) -> dict[str, int]:
    """Return each array's byte offset in a kernel's memory, and the memory's size.

    The size is the entry "work".
    """
    cells = max(2, 2**S // 8)
    sizes = {
        "calibrated": 4 * columns,  # size of the part before it; the next likewise
        "keys": 4 * pitch,
        "values": 8 * LANES * S,
        "sums": 8 * LANES * R,
        "cells": 8 * LANES * R,
        "held": 8 * LANES * cells,
        "work": 8 * columns,
    }
    lines = [-(-size // LINE) * LINE for size in sizes.values()]
    return dict(zip(sizes, np.cumsum(lines).tolist(), strict=True))
