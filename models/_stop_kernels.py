"""Compiled comparison of many running sums at once: which rows may stop here.

The sums are those of a block of rows, as `_block_kernels.py` lays them out. A vector of
them is compared with the limits of a base model; a row beyond gets its answer, and its
sums become NaN, which no comparison ever holds for.
"""

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import boolean, float64, int64, types, uint64, void
from numba.core.types import Array
from numba.extending import intrinsic
from numpy.typing import NDArray

from ._block_kernels import BLOCK, WIDTH, load, spread, store
from ._layout_kernels import OPTIONS
from .declare import njit

WORDS = WIDTH // 64  # of bits, one for each row of a vector
LANES, CHAINS = 8, 4  # numbers compared at once, and comparisons under way
LIMITS = Array(float64, 2, "C")
DOUBLES = ir.VectorType(ir.DoubleType(), WIDTH)


def _store_bits(builder: Any, flags: Any, address: Any) -> None:
    store(builder, builder.bitcast(flags, ir.IntType(WIDTH)), address)


@intrinsic
def mark_outside(
    typing_context: Any, totals: Any, lower: Any, upper: Any, out: Any
) -> Any:
    """Write a bit for each of a vector's totals: whether it is outside the limits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        totals = load(builder, arguments[0], DOUBLES)
        lower, upper = (spread(builder, arguments[i], DOUBLES) for i in (1, 2))
        below = builder.fcmp_ordered("<", totals, lower)
        above = builder.fcmp_ordered(">", totals, upper)
        _store_bits(builder, builder.or_(below, above), arguments[3])
        return context.get_dummy_value()

    return types.void(types.uint64, float64, float64, types.uint64), generate


def _most(builder: Any, parts: list[Any], compare: str, start: float) -> Any:
    """Least or largest of some vectors, lane by lane, NaN apart; from `start` on."""

    def better(a: Any, b: Any) -> Any:
        return builder.select(builder.fcmp_ordered(compare, a, b), a, b)

    kind = parts[0].type
    best = [ir.Constant(kind, [start] * kind.count)] * CHAINS
    for i, part in enumerate(parts):
        best[i % CHAINS] = better(part, best[i % CHAINS])
    while len(best) > 1:
        best = [better(*pair) for pair in zip(best[::2], best[1::2], strict=True)]
    return best[0]


@intrinsic
def any_outside(typing_context: Any, totals: Any, lower: Any, upper: Any) -> Any:
    """Say whether any of a vector's totals is below `lower` or above `upper`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.VectorType(ir.DoubleType(), LANES)
        size = ir.Constant(ir.IntType(64), 8 * LANES)
        at, parts = arguments[0], []
        for _ in range(0, WIDTH, LANES):
            parts.append(load(builder, at, kind))
            at = builder.add(at, size)
        lower, upper = (spread(builder, arguments[i], kind) for i in (1, 2))
        low = builder.fcmp_ordered("<", _most(builder, parts, "<", np.inf), lower)
        high = builder.fcmp_ordered(">", _most(builder, parts, ">", -np.inf), upper)
        bits = builder.bitcast(builder.or_(low, high), ir.IntType(LANES))
        return builder.icmp_unsigned("!=", bits, ir.Constant(ir.IntType(LANES), 0))

    return boolean(types.uint64, float64, float64), generate


@intrinsic
def rank_two(typing_context: Any, totals: Any, best: Any, second: Any) -> Any:
    """Let a vector of totals in among the best and the second best ones."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        totals, best, second = (load(builder, at, DOUBLES) for at in arguments)

        def larger(a: Any, b: Any) -> Any:
            return builder.select(builder.fcmp_ordered(">", b, a), b, a)

        lesser = builder.select(builder.fcmp_ordered("<", totals, best), totals, best)
        store(builder, larger(second, lesser), arguments[2])
        store(builder, larger(best, totals), arguments[1])
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64, types.uint64), generate


@intrinsic
def mark_leading(typing_context: Any, best: Any, margin: Any, out: Any) -> Any:
    """Write a bit for each row of a vector: whether its lead is above the margin.

    `best` is where the largest totals are, the second largest following.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        margin = spread(builder, arguments[1], DOUBLES)
        second_at = builder.add(arguments[0], ir.Constant(ir.IntType(64), 8 * WIDTH))
        best, second = (load(builder, at, DOUBLES) for at in (arguments[0], second_at))
        lead = builder.fsub(best, second)
        _store_bits(builder, builder.fcmp_ordered(">", lead, margin), arguments[2])
        return context.get_dummy_value()

    return types.void(types.uint64, float64, types.uint64), generate


@njit(void(uint64, int64, float64[:, ::1]), **OPTIONS)
def rank(totals: int, scores: int, best: NDArray[np.float64]) -> None:
    """Find the two largest of `scores` totals of a vector: `best` (2, WIDTH)."""
    best[:] = -np.inf
    first = uint64(best.ctypes.data)
    second, at = first + uint64(8 * WIDTH), totals
    for _ in range(scores):
        rank_two(at, first, second)
        at += uint64(8 * BLOCK)


@intrinsic
def lowest(typing_context: Any, bits: Any) -> Any:
    """Place of the lowest bit that is set; there is one."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate


@njit(
    void(
        *[int64] * 3,
        float64[:, ::1],
        LIMITS,
        *(int64[::1], uint64[::1], float64[:, ::1]),
        float64[:, ::1],
        int64[::1],
    ),
    **OPTIONS,
)
def stop(
    model: int,
    start: int,
    count: int,
    totals: NDArray[np.float64],
    limits: NDArray[np.float64],
    rows: NDArray[np.int64],
    beyond: NDArray[np.uint64],
    best: NDArray[np.float64],
    sums: NDArray[np.float64],
    codes: NDArray[np.int64],
) -> None:
    """Answer the rows of a block that are beyond the limits of a base model.

    The block holds `count` of the open `rows`, from `start` on. Totals become NaN where
    a row stops: those are beyond no limit ever after.
    """
    # Named tuples would be counted as used again and again, which takes longer.
    binary, scores = limits.shape[0] == 2, sums.shape[1]
    lower, upper = limits[0, model], limits[limits.shape[0] - 1, model]
    if upper == np.inf and (lower == -np.inf or not binary):
        return
    at, bits = uint64(totals.ctypes.data), uint64(beyond.ctypes.data)
    for first in range(0, count, WIDTH):
        some = True
        if binary:
            some = any_outside(at, lower, upper)
            if some:
                mark_outside(at, lower, upper, bits)
        else:
            rank(at, scores, best)
            mark_leading(uint64(best.ctypes.data), upper, bits)
        at += uint64(8 * WIDTH)
        if not some:
            continue
        for word in range(WORDS):
            done = beyond[word]
            while done != uint64(0):
                j = uint64(first + 64 * word) + lowest(done)
                done &= done - uint64(1)
                i = uint64(rows[uint64(start) + j])
                if binary:
                    codes[i] = 4 * (model + 1) + int64(totals[0, j] > upper)
                else:
                    codes[i] = 2 * (model + 1) + 1
                for r in range(scores):
                    sums[i, r] = totals[r, j]
                    totals[r, j] = np.nan
