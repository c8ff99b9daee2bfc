"""Steps and features: decorating functions."""

import functools

import pytest

from polydom.features.errors import BadFeature
from polydom.features.feature import feature, step
from polydom.features.ready_made.image import grey


@step(kind="text")
def words(text: str) -> list[str]:
    return text.split()


@feature(needs=[words])
def count(words: list[str]) -> list[int]:
    return [len(words)]


def test_feature_is_still_the_function_it_decorates() -> None:
    assert words("one two") == ["one", "two"]
    assert count(["one", "two"]) == [2]


def test_feature_takes_the_kind_of_its_needs() -> None:
    assert count.kind == "text"
    assert count.needs == (words,)


def test_feature_decorates_without_being_called() -> None:
    with pytest.raises(BadFeature, match="feature 'length' states neither kind= nor"):

        @feature
        def length(text: str) -> list[int]:
            return [len(text)]


def test_feature_carries_its_own_name_and_declared_costs() -> None:
    made = feature(len, kind="text", name="size", declared={"s": 0.0, "usd": 22.78})
    assert (made.name, made.declared) == ("size", {"s": 0.0, "usd": 22.78})


@pytest.mark.parametrize("cost", [-0.1, float("nan"), float("inf")])
def test_feature_refuses_a_declared_cost_that_is_none(cost: float) -> None:
    with pytest.raises(BadFeature, match=r"feature 'len' declares .* usd; 0 or more"):
        feature(len, kind="text", declared={"usd": cost})


def test_feature_refuses_an_unknown_way_to_fail() -> None:
    with pytest.raises(BadFeature, match=r"'len' has fails='stop'; \"refuse\" or"):
        feature(len, kind="text", fails="stop")  # type: ignore[call-overload]


def test_feature_without_a_name_must_be_given_one() -> None:
    with pytest.raises(BadFeature, match="has no name of its own; give one with name="):
        feature(functools.partial(max, 3), kind="text")


def test_step_refuses_needs_of_different_kinds() -> None:
    with pytest.raises(BadFeature, match="step 'both' mixes kinds of items: image, te"):

        @step(needs=[grey, words])
        def both(grey: object, words: object) -> None: ...


def test_step_refuses_a_kind_that_its_needs_are_not_of() -> None:
    with pytest.raises(BadFeature, match="mixes kinds of items: image, text"):
        step(len, kind="image", needs=[words])


def test_step_refuses_to_need_a_feature() -> None:
    with pytest.raises(BadFeature, match=r"step 'len' needs .*, which is no step"):
        step(len, needs=[count])  # type: ignore[list-item]


def test_feature_must_take_what_it_will_receive() -> None:
    with pytest.raises(BadFeature, match="'one' will receive 2 arguments: too many"):

        @feature(needs=[words, words])
        def one(words: object) -> None: ...
