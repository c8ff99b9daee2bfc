"""Contenders asked in turn."""

import pytest

from polydom.features.errors import BadItem
from polydom.server.evaluation.contenders import Said
from polydom.server.evaluation.contest import WARM_UP, Contest
from polydom.server.evaluation.labelled_items import LabelledItem

ITEMS = [LabelledItem(str(k), str(k), "ham", 1.0, str(k)) for k in range(7)]


class Asked:
    """Writes down when it was asked for what."""

    features = None

    def __init__(self, name: str, log: list[tuple[str, str]], fails: int = 0) -> None:
        self.name = name
        self._log = log
        self._fails = fails

    def answer(self, item: LabelledItem) -> Said:
        self._log.append((self.name, item.payload))
        if self._fails:
            self._fails -= 1
            raise BadItem(f"{self.name} failed")
        return Said(self.name)


def quiet(done: int, left: int | None = None) -> None:
    """Take the count, and do nothing."""


def test_all_are_asked_for_an_item_before_the_next_and_nobody_always_first() -> None:
    log: list[tuple[str, str]] = []
    contest = Contest(ITEMS, [Asked(n, log) for n in "abc"], repeat=3)
    contest.run(quiet)
    assert len(contest.rounds) == contest.total == 21
    rounds = [log[k : k + 3] for k in range(0, len(log), 3)]
    for one, asked in zip(contest.rounds, rounds, strict=True):
        assert {payload for _, payload in asked} == {one.item.payload}
        said = [reply.answer.label for reply in one.replies if reply.answer]
        assert said == ["a", "b", "c"]
        assert all(reply.took_s > 0 for reply in one.replies)
    turns = {tuple(name for name, _ in asked) for asked in rounds}
    assert len(turns) > 3
    orders = [[r.position for r in contest.rounds[k : k + 7]] for k in (0, 7, 14)]
    assert all(sorted(order) == [*range(7)] for order in orders)
    assert len(set(map(tuple, orders))) == 3


def test_what_is_done_stays_when_it_is_interrupted() -> None:
    log: list[tuple[str, str]] = []

    def interrupt(done: int, left: int | None = None) -> None:
        if done == 4:
            raise KeyboardInterrupt

    contest = Contest(ITEMS, [Asked(n, log) for n in "ab"])
    with pytest.raises(KeyboardInterrupt):
        contest.run(interrupt)
    assert len(contest.rounds) == 4
    assert all(len(one.replies) == 2 for one in contest.rounds)


def test_who_answers_nothing_at_first_is_given_up() -> None:
    log: list[tuple[str, str]] = []
    Contest(ITEMS, [Asked("a", log, fails=WARM_UP - 1)]).warm_up()
    assert len(log) == WARM_UP
    with pytest.raises(BadItem, match="b failed"):
        Contest(ITEMS, [Asked("b", log, fails=WARM_UP)]).warm_up()
    contest = Contest(ITEMS, [Asked("c", log, fails=1)])
    contest.run(quiet)
    errors = [one.replies[0].error for one in contest.rounds]
    assert [str(error) for error in errors if error] == ["c failed"]
