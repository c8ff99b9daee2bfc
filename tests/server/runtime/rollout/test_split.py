"""Shares of requests: drawn at random, or by the value of a header, or as asked."""

import math
import random
from hashlib import blake2b

import pytest

from polydom.features.errors import BadInput
from polydom.server.runtime.rollout.split import Split

COUNT = 4000


@pytest.fixture(autouse=True)
def _seeded() -> None:
    random.seed(7)


def customers(split: Split[str], header: str = "x-customer") -> list[str]:
    return [
        split.choose("old", [(b"host", b"here"), (header.encode(), b"c%d" % number)])
        for number in range(COUNT)
    ]


def within(found: int, share: float) -> bool:
    """Whether a count is within five standard deviations of a binomial's mean."""
    return abs(found - COUNT * share) <= 5 * math.sqrt(COUNT * share * (1 - share))


@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.5, 0.9, 1.0])
def test_shares_are_those_that_were_ordered(share: float) -> None:
    drawn = [Split("my", "new", share).choose("old", []) for _ in range(COUNT)]
    assert within(drawn.count("new"), share)
    sticky = customers(Split("my", "new", share, "x-customer"))
    assert within(sticky.count("new"), share)


def test_a_customer_gets_one_version_in_every_process() -> None:
    first = customers(Split("my", "new", 0.3, "x-customer"))
    assert customers(Split("my", "new", 0.3, "x-customer")) == first
    more = customers(Split("my", "new", 0.6, "x-customer"))
    assert all(
        now == "new" for was, now in zip(first, more, strict=True) if was == "new"
    )
    other = customers(Split("other", "new", 0.3, "x-customer"))
    assert other != first


@pytest.mark.parametrize("value", [b"\xff\xfe", "Zo\u00eb".encode(), b"x" * 8000])
def test_any_value_has_one_version(value: bytes) -> None:
    split = Split("my", "new", 0.5, "x-customer")
    headers = [(b"x-customer", value)]
    assert len({split.choose("old", headers) for _ in range(20)}) == 1


def test_places_are_those_of_a_hash() -> None:
    split = Split("my", "new", 0.5, "x-customer")
    for number in range(50):
        value = b"c%d" % number
        digest = int.from_bytes(
            blake2b(value, digest_size=8, key=b"my").digest(), "big"
        )
        expected = "new" if digest / 2**64 < 0.5 else "old"
        assert split.choose("old", [(b"x-customer", value)]) == expected


def test_requests_without_the_header_are_drawn() -> None:
    split = Split("my", "new", 0.5, "x-customer")
    assert {split.choose("old", [(b"x-other", b"1")]) for _ in range(100)} == {
        "old",
        "new",
    }
    empty = [(b"x-customer", b" ")]
    assert {split.choose("old", empty) for _ in range(100)} == {"old", "new"}
    plain = Split("my", "new", 0.5)
    assert {plain.choose("old", [(b"x-customer", b"1")]) for _ in range(100)} == {
        "old",
        "new",
    }


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_callers_may_choose(share: float) -> None:
    split = Split("my", "new", share, "x-customer")
    for said, answers in {b"candidate": "new", b"current": "old"}.items():
        headers = [(b"x-customer", b"1"), (b"x-polydom-version", said)]
        assert split.choose("old", headers) == answers
    for said in (b"", b"new", b"Candidate", b"\xff"):
        with pytest.raises(BadInput, match="'current' or 'candidate'"):
            split.choose("old", [(b"x-polydom-version", said)])
    for name in (b"x-polydom-version", b"x-customer"):
        with pytest.raises(BadInput, match="given twice"):
            split.choose("old", [(name, b"current")] * 2)
