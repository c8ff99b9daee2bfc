"""The orders of base models that QWYC compares with (appendix B)."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float64]
Order = NDArray[np.int64]


def fixed_orders(scores: Scores, seeds: int) -> Iterator[tuple[str, Order]]:
    """Each order by name; squared errors are against the sums of the scores (N, T)."""
    sums = scores.sum(axis=1)
    yield "natural", np.arange(scores.shape[1])
    yield "individual mse", order_individually(scores, sums)
    yield "greedy mse", order_greedily(scores, sums)
    for seed in range(seeds):
        drawn = np.random.default_rng(seed).permutation(scores.shape[1])
        yield f"random {seed}", drawn


def order_individually(scores: Scores, target: Scores) -> Order:
    """Return base models in ascending order of each one's mean squared error."""
    squares = np.einsum("nt,nt->t", scores, scores)
    return np.argsort(squares - 2 * (target @ scores), kind="stable")


def order_greedily(scores: Scores, target: Scores) -> Order:
    """Return base models in the order in which each most lowers the sum's MSE."""
    gram = scores.T @ scores
    # Adding k to a sum with residual e changes the squared error by |f_k|^2 - 2 e.f_k.
    change = np.diag(gram) - 2 * (target @ scores)
    order = []
    for _ in range(len(gram)):
        k = int(np.argmin(change))
        order.append(k)
        change += 2 * gram[k]
        change[k] = np.inf
    return np.array(order)
