"""Compiled evaluation of many rows by packed trees, a block of rows per tree.

A row's inputs become codes: the number of the slot's thresholds below its key, in 8 or
16 bits. Each node of a tree is then tested for `WIDTH` rows at once, from the bottom
up: a node's answer is the number of the leaf in which a row that came to it would end,
taken from its left or its right child. No row waits for its path, a tree's tests stay
in the first cache for the whole block, and one leaf per row and tree is looked up.

The vectors are LLVM's own, for any processor: it cuts them to what the machine has.
`trees/batch.py` lays out the trees and is trusted.
"""

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import float64, int32, int64, types, uint8, uint16, uint64, void
from numpy.typing import NDArray

from ...scoring.kernels.cached_njit import OPTIONS, njit
from ...scoring.kernels.native import (
    ADDRESS,
    ROWS,
    constant,
    gather,
    in_llvm,
    load,
    spread,
    store,
)
from ...scoring.model import Floats
from .packed import key_of

WIDTH = 128  # rows in a vector
BLOCK = 512  # rows whose codes are at hand at once


class Forest(NamedTuple):
    """Trees as the kernels of this module read them.

    Attributes
    ----------
    columns, lacking, zeros : (S,) int32
        Slots as in `keys.py`.
    cuts, starts : (C,), (S + 1,) int32
        Ascending keys that the slots' inputs are compared with, slot after slot.
    heads : (T, HEAD_SIZE) int64
    slots, tests : (M,) uint16, uint8 or uint16
        Inputs and codes of inner nodes; a row goes right if its code is above.
        First a tree's pairs, whose children are leaves, then its joins.
    joins : (J,) uint16
        Answers, counted within the tree, that a join chooses from: left, right.
    values : (L,) float64
        Leaf values, in each tree V times all its leaves: the pairs' and the others'.
    """

    columns: NDArray[np.int32]
    lacking: NDArray[np.int32]
    zeros: NDArray[np.int32]
    cuts: NDArray[np.int32]
    starts: NDArray[np.int32]
    heads: NDArray[np.int64]
    slots: NDArray[np.uint16]
    tests: NDArray[Any]
    joins: NDArray[np.uint16]
    values: Floats


class Room(NamedTuple):
    """What the kernels write on.

    Attributes
    ----------
    keys : (2, BLOCK) int32
    codes : (S, BLOCK) uint8 or uint16
    answers : (most of a tree, WIDTH) of the same kind
    totals : (R, BLOCK) float64
    """

    keys: NDArray[np.int32]
    codes: NDArray[Any]
    answers: NDArray[Any]
    totals: Floats


def _forest(code: Any) -> Any:
    ints, shorts = int32[::1], uint16[::1]
    kinds = [ints] * 5 + [int64[:, ::1], shorts, code[::1], shorts, float64[::1]]
    return types.NamedTuple(kinds, Forest)


def _room(code: Any) -> Any:
    codes = code[:, ::1]
    return types.NamedTuple([int32[:, ::1], codes, codes, float64[:, ::1]], Room)


FOREST8, FOREST16 = _forest(uint8), _forest(uint16)
ROOM8, ROOM16 = _room(uint8), _room(uint16)
WIDTHS = [(FOREST8, ROOM8), (FOREST16, ROOM16)]

# Columns of a tree's head: where its tests, joins and leaf values begin; how many
# pairs, single leaves and joins it has; and its first raw score.
TEST, JOIN, VALUE, PAIRS, SINGLES, JOINS, TARGET, HEAD_SIZE = range(8)


def _lanes(bits: int) -> Any:
    return ir.VectorType(ir.IntType(bits), WIDTH)


@in_llvm(lambda row, test, leaf, out: types.void(ADDRESS, test, types.uint64, ADDRESS))
def ask_pair(builder: Any, row: Any, test: Any, leaf: Any, out: Any) -> None:
    """Write `leaf`, or the one after it where a code exceeds `test`, for a vector."""
    kind = _lanes(test.type.width)
    codes = load(builder, row, kind)
    leaf = builder.trunc(leaf, kind.element)
    tests, leaves = (spread(builder, n, kind) for n in (test, leaf))
    right = builder.zext(builder.icmp_unsigned(">", codes, tests), kind)
    store(builder, builder.add(leaves, right), out)


@in_llvm(lambda row, test, *three: types.void(ADDRESS, test, *[ADDRESS] * 3))
def ask_join(
    builder: Any, row: Any, test: Any, left: Any, right: Any, out: Any
) -> None:
    """Write what is at `right` where a code exceeds `test`, else what is at `left`."""
    kind = _lanes(test.type.width)
    codes, left, right = (load(builder, at, kind) for at in (row, left, right))
    beyond = builder.icmp_unsigned(">", codes, spread(builder, test, kind))
    store(builder, builder.select(beyond, right, left), out)


@in_llvm(lambda number, like, out: types.void(types.uint64, like, ADDRESS))
def fill(builder: Any, number: Any, like: Any, out: Any) -> None:
    """Write a number into all lanes of a vector of the kind of `like`."""
    kind = _lanes(like.type.width)
    number = builder.trunc(number, kind.element)
    store(builder, spread(builder, number, kind), out)


@in_llvm(types.void(*[ADDRESS] * 4))
def search(builder: Any, keys: Any, cuts: Any, step: Any, places: Any) -> None:
    """Add `step` to the places where the cut before there is below the key."""
    kind = _lanes(32)
    keys, found = load(builder, keys, kind), load(builder, places, kind)
    step = spread(builder, builder.trunc(step, kind.element), kind)
    ahead = builder.add(found, step)
    before = builder.sub(ahead, constant(kind, 1))
    cuts = gather(builder, cuts, before, kind)
    below = builder.icmp_signed("<", cuts, keys)
    store(builder, builder.select(below, ahead, found), places)


@in_llvm(lambda ends, like, *two: types.void(ADDRESS, like, *[ADDRESS] * 2))
def add_values(builder: Any, ends: Any, like: Any, values: Any, totals: Any) -> None:
    """Add the values of the leaves `ends`, numbers of a kind `like`, to totals."""
    kind = ir.VectorType(ir.DoubleType(), WIDTH)
    ends = load(builder, ends, _lanes(like.type.width))
    values = gather(builder, values, ends, kind)
    store(builder, builder.fadd(load(builder, totals, kind), values), totals)


@njit(
    [void(int64, int64, int64, *kinds) for kinds in WIDTHS],
    **OPTIONS,
)
def rank_keys(s: int, to: int, count: int, forest: Forest, room: Room) -> None:
    """Turn the keys of slot s in `room` to codes, its row `to`, for `count` rows."""
    keys, codes, pitch = room.keys, room.codes, uint64(4 * WIDTH)
    keys[1, :] = 0
    start = uint64(forest.starts[s])
    size = uint64(forest.starts[s + 1]) - start
    cuts = uint64(forest.cuts.ctypes.data) + uint64(4) * start
    # All rows take the steps of one binary search together.
    while size > uint64(0):
        step = (size + uint64(1)) >> uint64(1)
        size -= step
        at, places = uint64(keys[0].ctypes.data), uint64(keys[1].ctypes.data)
        for _ in range(0, count, WIDTH):
            search(at, cuts, step, places)
            at += pitch
            places += pitch
    for j in range(count):
        codes[to, j] = keys[1, j]


@njit(
    [void(ROWS, int64, int64, *kinds) for kinds in WIDTHS],
    **OPTIONS,
)
def code_rows(
    X: NDArray[np.float32], first: int, count: int, forest: Forest, room: Room
) -> None:
    """Codes of `count` rows from `first` on; also of what is left in their vector."""
    keys, bits = room.keys, X.view(np.int32)
    for s in range(forest.columns.shape[0]):
        column = uint64(forest.columns[s])
        absent, zero = forest.lacking[s], forest.zeros[s]
        for j in range(count):
            keys[0, j] = key_of(bits[uint64(first + j), column], absent, zero)
        rank_keys(s, s, count, forest, room)


@njit([void(int64, int64, *kinds, int64) for kinds in WIDTHS], **OPTIONS)
def add_tree(t: int, count: int, forest: Forest, room: Room, terms: int) -> None:
    """Add tree t's values for `count` rows to the totals in `room`."""
    head, slots, tests, joins = (
        forest.heads[t],
        forest.slots,
        forest.tests,
        forest.joins,
    )
    # Numbers below 0 would count from an array's end; these need not be asked.
    pairs, singles = uint64(head[PAIRS]), uint64(head[SINGLES])
    start, middle = uint64(head[TEST]), uint64(head[TEST]) + pairs
    first_join, count_joins = uint64(head[JOIN]), uint64(head[JOINS])
    stride = uint64(BLOCK * room.codes.itemsize)
    pitch = uint64(WIDTH * room.codes.itemsize)
    inputs, answers = uint64(room.codes.ctypes.data), uint64(room.answers.ctypes.data)
    values = uint64(forest.values.ctypes.data) + uint64(8) * uint64(head[VALUE])
    totals = uint64(room.totals[head[TARGET]].ctypes.data)
    leaves = uint64(2) * pairs + singles
    zero = tests.dtype.type(0)
    for first in range(0, count, WIDTH):
        to, leaf = answers, uint64(0)
        for k in range(start, middle):
            ask_pair(inputs + stride * uint64(slots[k]), tests[k], leaf, to)
            leaf += uint64(2)
            to += pitch
        for k in range(singles):
            fill(leaf + k, zero, to)
            to += pitch
        for k in range(count_joins):
            at, row = middle + k, first_join + uint64(2) * k
            left = answers + pitch * uint64(joins[row])
            right = answers + pitch * uint64(joins[row + uint64(1)])
            ask_join(inputs + stride * uint64(slots[at]), tests[at], left, right, to)
            to += pitch
        for v in range(terms):
            out = totals + uint64(8) * uint64(first + BLOCK * v)
            at = values + uint64(8) * leaves * uint64(v)
            add_values(to - pitch, zero, at, out)
        inputs += pitch


@njit(
    [void(ROWS, *kinds, int64, float64[:, ::1]) for kinds in WIDTHS],
    **OPTIONS,
)
def add_batch(
    X: NDArray[np.float32], forest: Forest, room: Room, terms: int, out: Floats
) -> None:
    """Add the trees' leaf values, `terms` each, to the raw scores `out` (N, R)."""
    for first in range(0, X.shape[0], BLOCK):
        count = min(BLOCK, X.shape[0] - first)
        code_rows(X, first, count, forest, room)
        for r in range(out.shape[1]):
            for j in range(count):
                room.totals[r, j] = out[first + j, r]
        for t in range(forest.heads.shape[0]):
            add_tree(t, count, forest, room, terms)
        for r in range(out.shape[1]):
            for j in range(count):
                out[first + j, r] = room.totals[r, j]
