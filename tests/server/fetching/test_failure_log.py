"""What the log says of failures has no values of keys."""

import pytest

from polydom.features.errors import FetchFailed
from polydom.server.fetching.failure_log import explain


@pytest.mark.parametrize(
    ("key", "said", "expected"),
    [
        ((17, "Ann"), "no row for (17, 'Ann')", "no row for (..., '...')"),
        ((17,), "'customer:17' of 170 is 17.", "'customer:...' of 170 is ...."),
        (("",), "an empty key", "an empty key"),
        (("O'Hara\n",), 'key "O\'Hara\\n" is odd', "key ... is odd"),
        (("a.b",), "acb a.b", "acb ..."),
        (("aa", "a"), "aa a", "... ..."),
        ((), "no keys", "no keys"),
    ],
)
def test_values_of_keys_are_replaced_by_dots(
    key: tuple[str | int, ...], said: str, expected: str
) -> None:
    assert explain(FetchFailed(said), [key]) == expected


def test_long_keys_are_replaced_before_the_text_is_cut() -> None:
    key = "x" * 5000
    assert explain(FetchFailed(f"no row for {key}"), [(key,)]) == "no row for ..."
