import math

import pytest

from polydom.features.sizes import Size, is_size, show_size


@pytest.mark.parametrize(
    ("size", "shown"), [(480_000.0, "480000"), ((800.0, 600.0), "800 x 600")]
)
def test_sizes_are_shown_as_people_write_them(size: Size, shown: str) -> None:
    assert show_size(size) == shown


@pytest.mark.parametrize(
    ("size", "variables", "expected"),
    [
        (1.0, 1, True),
        (1.0, 2, False),
        ((1.0, 2.0), 2, True),
        ((1.0, 2.0), 1, False),
        (0.0, 1, False),
        (math.nan, 1, False),
        ((1.0, math.inf), 2, False),
        ((-1.0, 1.0), 2, False),
    ],
)
def test_is_size_counts_and_checks_the_numbers(
    size: Size, variables: int, expected: bool
) -> None:
    assert is_size(size, variables) == expected
