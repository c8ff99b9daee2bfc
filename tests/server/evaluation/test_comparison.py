"""Predictors asked in turn."""

import pytest

from polydom.features.errors import BadItem
from polydom.server.evaluation.comparison import WARM_UP, Comparison
from polydom.server.evaluation.labelled_items import LabelledItem
from polydom.server.evaluation.predictors import PlainAnswer

ITEMS = [LabelledItem(str(k), str(k), "ham", 1.0, str(k)) for k in range(7)]


class Asked:
    """Writes down when it was asked for what."""

    features = None

    def __init__(self, name: str, log: list[tuple[str, str]], fails: int = 0) -> None:
        self.name = name
        self._log = log
        self._fails = fails

    def answer(self, item: LabelledItem) -> PlainAnswer:
        self._log.append((self.name, item.payload))
        if self._fails:
            self._fails -= 1
            raise BadItem(f"{self.name} failed")
        return PlainAnswer(self.name)


def quiet(done: int, left: int | None = None) -> None:
    """Take the count, and do nothing."""


def test_all_are_asked_for_an_item_before_the_next_and_nobody_always_first() -> None:
    log: list[tuple[str, str]] = []
    comparison = Comparison(ITEMS, [Asked(n, log) for n in "abc"], repeat=3)
    comparison.run(quiet)
    assert len(comparison.trials) == comparison.total == 21
    trials = [log[k : k + 3] for k in range(0, len(log), 3)]
    for one, asked in zip(comparison.trials, trials, strict=True):
        assert {payload for _, payload in asked} == {one.item.payload}
        said = [reply.answer.label for reply in one.replies if reply.answer]
        assert said == ["a", "b", "c"]
        assert all(reply.took_s > 0 for reply in one.replies)
    turns = {tuple(name for name, _ in asked) for asked in trials}
    assert len(turns) > 3
    orders = [[r.position for r in comparison.trials[k : k + 7]] for k in (0, 7, 14)]
    assert all(sorted(order) == [*range(7)] for order in orders)
    assert len(set(map(tuple, orders))) == 3


def test_what_is_done_stays_when_it_is_interrupted() -> None:
    log: list[tuple[str, str]] = []

    def interrupt(done: int, left: int | None = None) -> None:
        if done == 4:
            raise KeyboardInterrupt

    comparison = Comparison(ITEMS, [Asked(n, log) for n in "ab"])
    with pytest.raises(KeyboardInterrupt):
        comparison.run(interrupt)
    assert len(comparison.trials) == 4
    assert all(len(one.replies) == 2 for one in comparison.trials)


def test_who_answers_nothing_at_first_is_given_up() -> None:
    log: list[tuple[str, str]] = []
    Comparison(ITEMS, [Asked("a", log, fails=WARM_UP - 1)]).warm_up()
    assert len(log) == WARM_UP
    with pytest.raises(BadItem, match="b failed"):
        Comparison(ITEMS, [Asked("b", log, fails=WARM_UP)]).warm_up()
    comparison = Comparison(ITEMS, [Asked("c", log, fails=1)])
    comparison.run(quiet)
    errors = [one.replies[0].error for one in comparison.trials]
    assert [str(error) for error in errors if error] == ["c failed"]
