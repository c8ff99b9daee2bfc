"""Orders of the base models that QWYC is compared with (its appendix B)."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..features.errors import BadInput

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
OrderName = Literal["natural", "random", "individual-mse", "greedy-mse"]


def make_order(
    name: OrderName, scores: Floats, target: Floats, *, seed: int = 0
) -> Rows:
    """Order the base models by name.

    Parameters
    ----------
    scores
        (N, T) base-model scores.
    target
        (N,) what the base models should come near: labels, or the full scores.
    seed
        Of the random order.
    """
    match name:
        case "natural":
            return np.arange(scores.shape[1])
        case "random":
            return np.random.default_rng(seed).permutation(scores.shape[1])
        case "individual-mse":
            return order_individually(scores, target)
        case "greedy-mse":
            return order_greedily(scores, target)
    raise BadInput(
        f"order is {name!r}; it must be natural, random, individual-mse, greedy-mse "
        "or the T base models in some order"
    )


def order_individually(scores: Floats, target: Floats) -> Rows:
    """Order base models by ascending mean squared error of each alone."""
    squares = np.einsum("nt,nt->t", scores, scores)
    return np.argsort(squares - 2 * (target @ scores), kind="stable")


def order_greedily(scores: Floats, target: Floats) -> Rows:
    """At each position the base model that leaves the partial sum's MSE smallest."""
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
