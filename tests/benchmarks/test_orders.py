"""Orders of base models that QWYC's benchmark compares with."""

import numpy as np

from benchmarks.exits.orders import fixed_orders, order_greedily, order_individually


def test_orders_by_mse_put_the_nearest_model_first() -> None:
    target = np.array([-1.0, -1.0, 1.0, 1.0])
    half, copy, rest = target / 2, target / 2 + 0.01, target * [0, 1, 0, 1]
    scores = np.stack([rest, half, copy], axis=1)
    assert order_individually(scores, target)[0] == 1
    assert order_greedily(scores, target)[:2].tolist() == [1, 2]


def test_orders_are_permutations() -> None:
    scores = np.random.default_rng(0).normal(size=(20, 5))
    orders = dict(fixed_orders(scores, 2))
    assert [*orders] == [
        "natural",
        "individual mse",
        "greedy mse",
        "random 0",
        "random 1",
    ]
    assert orders["natural"].tolist() == [0, 1, 2, 3, 4]
    assert all(sorted(order) == [0, 1, 2, 3, 4] for order in orders.values())
