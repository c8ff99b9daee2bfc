"""Fetches of a user's functions: what they may say of themselves, and may return."""

import asyncio
import math
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from polydom.features import fetch
from polydom.features.errors import BadFetch, FetchFailed
from polydom.features.fetches.answers import LONGEST
from polydom.features.fetches.fetch import Fetch, Key

COLUMNS = ("n_orders", "mean_amount")


def returning(answers: Any, columns: Sequence[str] = COLUMNS) -> Fetch:
    """A fetch whose function returns the same, whatever it is asked for."""

    @fetch(key=["customer_id"], columns=columns)
    async def orders(keys: Sequence[Key], left_s: float) -> Any:
        return answers

    return orders


def bring(asked: Fetch, keys: Sequence[Key] = ((17,),)) -> list[Any]:
    return asyncio.run(asked.bring(keys, 1.0))


def test_decorator_makes_a_fetch_with_its_terms() -> None:
    @fetch(
        key=["a", "b"],
        columns=["x"],
        name="other",
        at_most_ms=250,
        keep_s=60,
        batch=7,
        at_once=3,
        hedge=0.05,
    )
    async def made(keys: Sequence[Key], left_s: float) -> Any:
        return [[f"{key} {left_s}"] for key in keys]

    assert (made.name, made.key, made.columns) == ("other", ("a", "b"), ("x",))
    assert (made.at_most_s, made.keep_s, made.batch, made.at_once) == (0.25, 60, 7, 3)
    assert made.hedge == 0.05
    assert bring(made, [(1, "k")]) == [{"x": "(1, 'k') 1.0"}]


def test_answers_are_mappings_lists_or_nothing() -> None:
    asked = returning(({"mean_amount": 2.5, "n_orders": 3}, [4, 1.5], (5, "x"), None))
    assert bring(asked, [(1,), (2,), (3,), (4,)]) == [
        {"n_orders": 3, "mean_amount": 2.5},
        {"n_orders": 4, "mean_amount": 1.5},
        {"n_orders": 5, "mean_amount": "x"},
        None,
    ]


def test_gaps_are_none() -> None:
    assert bring(returning([[math.nan, True]])) == [
        {"n_orders": None, "mean_amount": True}
    ]
    assert bring(returning([{"n_orders": 1}])) == [{"n_orders": 1, "mean_amount": None}]


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (np.float32(0.5), 0.5),
        (np.int64(3), 3),
        (Decimal("1.25"), 1.25),
        (Decimal("NaN"), None),
        (np.float64("nan"), None),
        (date(2026, 1, 31), "2026-01-31"),
        (np.datetime64("NaT"), None),
        ("é" * (LONGEST // 2), "é" * (LONGEST // 2)),
    ],
    ids=str,
)
def test_values_become_what_records_hold(value: Any, plain: Any) -> None:
    (brought,) = bring(returning([[value, 1]]))
    assert brought is not None
    assert brought["n_orders"] == plain
    assert type(brought["n_orders"]) is type(plain)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (None, "fetch 'orders' returned NoneType; a list is needed"),
        ({"n_orders": 1}, "returned dict; a list is needed"),
        ([], "returned 0 answers to 1 keys; one for each key is needed, in order"),
        ([None, None], "returned 2 answers to 1 keys"),
    ],
)
def test_unusable_answers_are_refused(answers: Any, message: str) -> None:
    with pytest.raises(FetchFailed) as raised:
        bring(returning(answers))
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (7, "returned int for a key; a mapping of columns to values, a list"),
        ("ab", "returned str for a key"),
        ([1], "a list of 1 values for a key; 2 are needed: n_orders, mean_amount"),
        ({"n_order": 1}, "brought a column 'n_order'; did you mean 'n_orders'?"),
        ([1, math.inf], "column 'mean_amount' holds inf; a finite number is needed"),
        ([np.float64("-inf"), 1], "column 'n_orders' holds -inf"),
        ([10**400, 1], "column 'n_orders' holds a whole number beyond 1e308"),
        (["x" * (LONGEST + 1), 1], "holds a text of 65,537 bytes; at most 65,536"),
        (["é" * LONGEST, 1], "holds a text of 131,072 bytes"),
        ([[1], 1], "column 'n_orders' holds a list; a number, a string, a boolean"),
        ([b"x", 1], "column 'n_orders' holds a bytes; a number, a string"),
    ],
)
def test_an_unusable_answer_fails_for_its_key_alone(answer: Any, message: str) -> None:
    good = {"n_orders": 3, "mean_amount": 2.5}
    keys = [(1,), (2,), (3,)]
    first, failure, last = bring(returning([good, answer, None]), keys)
    assert (first, last) == (good, None)
    assert isinstance(failure, FetchFailed)
    assert str(failure).startswith("fetch 'orders'")
    assert message in str(failure)


def test_a_function_may_fail_for_a_key_alone() -> None:
    failure = FetchFailed("it is locked")
    keys = [(1,), (2,)]
    assert bring(returning([failure, None]), keys) == [failure, None]


def test_an_error_of_the_function_is_named() -> None:
    @fetch(key=["customer_id"], columns=["x"])
    async def orders(keys: Sequence[Key], left_s: float) -> Any:
        raise ConnectionError("no route")

    with pytest.raises(FetchFailed, match="'orders' raised ConnectionError: no route"):
        bring(orders)


def test_a_fetch_bound_to_an_index_brings_its_columns_only() -> None:
    bound = returning([[3, 2.5]]).bound_to(["customer_id"], ["mean_amount"])
    assert bound.columns == ("mean_amount",)
    assert bring(bound) == [{"mean_amount": 2.5}]


@pytest.mark.parametrize(
    ("key", "columns", "message"),
    [
        (["customer"], ["n_orders"], "has the key customer_id; the key customer is"),
        (["customer_id"], ["n_late"], "does not bring 'n_late'; it brings n_orders"),
    ],
)
def test_a_fetch_of_something_else_is_not_bound(
    key: list[str], columns: list[str], message: str
) -> None:
    with pytest.raises(BadFetch, match=message):
        returning([]).bound_to(key, columns)


async def good(keys: Any, left_s: float) -> Any: ...


def plain(keys: Any, left_s: float) -> Any: ...


async def single(keys: Any) -> Any: ...


@pytest.mark.parametrize(
    ("terms", "function", "message"),
    [
        ({}, plain, "fetch 'plain' is no asynchronous function; begin it with `async"),
        ({}, single, "'single' will receive 2 arguments, keys and left_s: too many"),
        ({"key": []}, good, "fetch 'good' has no key"),
        ({"columns": []}, good, "fetch 'good' has no columns"),
        ({"key": "id"}, good, "fetch 'good' has key='id'; a list is needed"),
        ({"key": [7]}, good, "key has 7; names of columns are needed"),
        ({"columns": ["x", "x"]}, good, "columns has 'x' twice"),
        ({"columns": ["id"]}, good, "brings 'id', which is a part of its key"),
        ({"at_most_ms": 0}, good, "at_most_ms is 0; 0.001 or more, and at most 60000,"),
        ({"keep_s": -1}, good, "keep_s is -1; 0 or more is needed"),
        ({"keep_s": math.nan}, good, "keep_s is nan; 0 or more is needed"),
        ({"batch": 0}, good, "batch is 0; 1 or more, and at most 10000, is needed"),
        ({"at_once": 99_999}, good, "at_once is 99999; 1 or more"),
        ({"hedge": 0.6}, good, "hedge is 0.6; 0 or more, and at most 0.5, is needed"),
    ],
)
def test_wrong_terms_are_refused(
    terms: dict[str, Any], function: Any, message: str
) -> None:
    decorate: Any = fetch
    with pytest.raises(BadFetch) as raised:
        decorate(**{"key": ["id"], "columns": ["x"], **terms})(function)
    assert message in str(raised.value)
