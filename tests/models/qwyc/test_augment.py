"""Rows made for fitting, with columns of others."""

from typing import Any

import numpy as np
import pytest

from polydom.features.errors import BadInput
from polydom.models.qwyc.augment import swap_columns


def test_swap_columns_keeps_the_rows_and_swaps_about_as_many_columns_as_asked() -> None:
    rows = np.random.default_rng(0).normal(size=(500, 10)).astype(np.float32)
    more = swap_columns(rows, copies=2, swaps=1.5)
    assert more.shape == (1500, 10)
    np.testing.assert_array_equal(more[:500], rows)
    changed = (more[500:].reshape(2, 500, 10) != rows).sum(axis=2)
    assert changed.mean() == pytest.approx(1.5, abs=0.1)
    for j in range(10):
        assert np.isin(more[:, j], rows[:, j]).all()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"rows": np.zeros(3)}, r"shape \(3,\)"),
        ({"copies": -1}, "copies is -1"),
        ({"swaps": 0.0}, "swaps is 0.0"),
        ({"swaps": 4.0}, "at most the 3 columns"),
    ],
)
def test_swap_columns_says_what_is_wrong(
    arguments: dict[str, Any], reason: str
) -> None:
    with pytest.raises(BadInput, match=reason):
        swap_columns(**({"rows": np.zeros((4, 3), np.float32)} | arguments))
