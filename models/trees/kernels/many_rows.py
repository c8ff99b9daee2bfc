"""Compiled evaluation of trees for blocks of rows, one test for all rows at a time.

First the kernel turns each input of a row into one or more codes. A code is a byte: the
number of thresholds of the input that are below its value. Then the kernel goes through
each tree from the last test to the root, and evaluates each test for all rows of the
block, even for rows that would not reach the test; `trees/many_rows.py` has an example.
So no branch depends on a row's path, and all data that a test reads is in the
first-level cache. Last, the kernel adds one leaf value for each row and tree. Arguments
are not checked.
"""

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import boolean, float64, int32, int64, types, uint8, uint16, uint64, void
from numpy.typing import NDArray

from ...scoring.kernels.cached_njit import OPTIONS, njit
from ...scoring.kernels.native import ADDRESS, ROWS, in_llvm, load, spread, store
from ...scoring.model import Floats
from .avx512 import IN_REGISTERS, LANES, add_of_all, add_of_half
from .one_row import key_of

BLOCK = 512  # rows whose codes and answers fit into the first-level cache
MOST_CUTS = 255  # thresholds counted by one code, which is a byte
PIVOTS = 32  # thresholds of a slot that every row is compared with


class Forest(NamedTuple):
    """Trees as arrays, in the layout of this module's kernels."""

    # `columns`, `lacking`, `zeros`: (S,) int32: Slots as in `keys.py`.
    columns: NDArray[np.int32]
    lacking: NDArray[np.int32]
    zeros: NDArray[np.int32]
    # `cuts` and `starts`: (C,), (S + 1,) int32: Ascending keys of thresholds, slot
    # after slot, and the start of each slot
    cuts: NDArray[np.int32]
    starts: NDArray[np.int32]
    # (S + 1,) int32: First code of each slot, then the number of all codes
    codes: NDArray[np.int32]
    heads: NDArray[np.int64]  # Head of each tree, shape (T, HEAD_SIZE)
    # (M, 4) uint16: Inner nodes, tree after tree, parents before their children
    tests: NDArray[np.uint16]
    # (L,) float64: Leaf values, tree after tree: V times the values of all its leaves.
    # `IN_REGISTERS` zeros follow, as the kernel reads past the last tree.
    values: Floats


class WorkArrays(NamedTuple):
    """Memory for the results between the steps of `add_batch`."""

    keys: NDArray[np.int32]  # Keys of a block's rows, and ranks, (2, BLOCK)
    codes: NDArray[np.uint8]  # Codes of a block's rows, (number of codes, BLOCK)
    # (most leaves and tests of a tree, BLOCK) uint8: The numbers of the leaves, each as
    # the leaf's own answer, then the answers of a tree's tests
    answers: NDArray[np.uint8]
    totals: Floats  # Sums of a block's rows, shape (R, BLOCK)


INTS, BYTES, TOTALS = int32[::1], uint8[:, ::1], float64[:, ::1]
HEADS = int64[:, ::1]
FOREST = types.NamedTuple([INTS] * 6 + [HEADS, uint16[:, ::1], float64[::1]], Forest)
WORK = types.NamedTuple([int32[:, ::1], BYTES, BYTES, TOTALS], WorkArrays)

# Columns of a tree's head: first test and number of tests; answers of the root; first
# leaf value and number of leaves; first raw score.
FIRST, TESTS, ROOT, VALUE, LEAVES, TARGET, HEAD_SIZE = range(7)
# Columns of a test: the code to compare, the limit above which a row goes right, and
# the places of both children's answers.
CODE, LIMIT, LEFT, RIGHT = range(4)

_ROWS = ir.VectorType(ir.IntType(8), LANES)


@in_llvm(types.void(ADDRESS, types.uint16, *[ADDRESS] * 3))
def choose(
    builder: Any, codes: Any, limit: Any, left: Any, right: Any, out: Any
) -> None:
    """Write to `out`, for each of `LANES` rows, a byte of `right` or of `left`.

    A row gets the byte of `right` if its code exceeds `limit`. All arguments except
    `limit` are addresses.
    """
    codes, left, right = (load(builder, at, _ROWS) for at in (codes, left, right))
    limits = spread(builder, builder.trunc(limit, _ROWS.element), _ROWS)
    beyond = builder.icmp_unsigned(">", codes, limits)
    store(builder, builder.select(beyond, right, left), out)


@njit(inline="always")
def rank_keys(s: int, count: int, forest: Forest, work: WorkArrays) -> None:
    """Turn the keys of `count` rows in slot `s` into codes.

    A code is the number of the slot's thresholds below the key. All rows take each step
    of a binary search together.
    """
    keys, ranks = work.keys[0], work.keys[1]
    cuts = forest.cuts[forest.starts[s] : forest.starts[s + 1]]
    size, step = cuts.shape[0], 1
    while PIVOTS * step < size:
        step *= 2
    for j in range(count):
        ranks[j] = 0
    for at in range(step, size + 1, step):
        cut = cuts[uint64(at - 1)]
        for j in range(count):
            ranks[j] += int32(step) if cut < keys[j] else int32(0)
    while step > 1:
        step //= 2
        for j in range(count):
            ahead = ranks[j] + int32(step)
            cut = cuts[uint64(min(ahead, int32(size)) - 1)]
            ranks[j] = ahead if cut < keys[j] and ahead <= int32(size) else ranks[j]
    first = forest.codes[s]
    for part in range(forest.codes[s + 1] - first):
        codes, before = work.codes[uint64(first + part)], int32(MOST_CUTS * part)
        for j in range(count):
            codes[j] = min(max(ranks[j] - before, int32(0)), int32(MOST_CUTS))


@njit(inline="always")
def code_rows(
    X: NDArray[np.float32], first: int, count: int, forest: Forest, work: WorkArrays
) -> None:
    """Write the codes of rows `first` to `first + count - 1` of X to `work.codes`."""
    keys, bits = work.keys[0], X.view(np.int32)
    for s in range(forest.columns.shape[0]):
        column = uint64(forest.columns[s])
        absent, zero = forest.lacking[s], forest.zeros[s]
        for j in range(count):
            keys[j] = key_of(bits[uint64(first + j), column], absent, zero)
        rank_keys(s, count, forest, work)


@njit(inline="always")
def find_ends(head: Any, count: int, forest: Forest, work: WorkArrays) -> Any:
    """Return the number of the leaf that each row reaches in one tree: (BLOCK,).

    `head` is the tree's row in `forest.heads`. The first `count` results are valid.
    """
    first, root, answers = uint64(head[FIRST]), uint64(head[ROOT]), work.answers
    for k in range(head[TESTS] - 1, -1, -1):
        test = forest.tests[first + uint64(k)]
        limit, codes = test[LIMIT], uint64(work.codes[test[CODE]].ctypes.data)
        left = uint64(answers[test[LEFT]].ctypes.data)
        right = uint64(answers[test[RIGHT]].ctypes.data)
        out = uint64(answers[root + uint64(k)].ctypes.data)
        for j in range(uint64(0), uint64(count), uint64(LANES)):
            choose(codes + j, limit, left + j, right + j, out + j)
    return answers[root]


@njit(inline="always")
def add_leaves(
    ends: NDArray[np.uint8],
    leaves: int,
    values: Floats,
    count: int,
    totals: Floats,
    vector: bool,
) -> None:
    """Add to each row's total the value of the leaf that the row reaches in one tree.

    `ends` has the number of each row's leaf, and `values` has the value of each leaf.
    """
    if vector and leaves <= IN_REGISTERS:
        at, own, to = (
            uint64(ends.ctypes.data),
            uint64(values.ctypes.data),
            uint64(totals.ctypes.data),
        )
        for j in range(uint64(0), uint64(count), uint64(LANES)):
            if leaves <= IN_REGISTERS // 2:
                add_of_half(at + j, own, to + uint64(8) * j)
            else:
                add_of_all(at + j, own, to + uint64(8) * j)
    else:
        for j in range(count):
            totals[j] += values[ends[j]]


@njit(void(ROWS, FOREST, WORK, int64, boolean, TOTALS), **OPTIONS)
def add_batch(
    X: NDArray[np.float32],
    forest: Forest,
    work: WorkArrays,
    terms: int,
    vector: bool,
    out: Floats,
) -> None:
    """Add to the raw scores `out` (N, R) the values of each row's leaf in each tree.

    `X` has N rows. Each leaf has `terms` values. If `vector`, the kernel uses AVX-512.
    """
    for first in range(0, X.shape[0], BLOCK):
        count = min(BLOCK, X.shape[0] - first)
        code_rows(X, first, count, forest, work)
        for r in range(out.shape[1]):
            for j in range(count):
                work.totals[r, j] = out[first + j, r]
        for t in range(forest.heads.shape[0]):
            head = forest.heads[t]
            ends = find_ends(head, count, forest, work)
            for v in range(terms):
                values = forest.values[head[VALUE] + v * head[LEAVES] :]
                totals = work.totals[head[TARGET] + v]
                add_leaves(ends, head[LEAVES], values, count, totals, vector)
        for r in range(out.shape[1]):
            for j in range(count):
                out[first + j, r] = work.totals[r, j]
