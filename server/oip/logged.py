"""Gives the log of answers what an inference request was answered."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import UNSET

from ..answer_log.answer_log import AnswerLog
from ..answer_log.line import Entrance, Entry
from ..engine.request import Outcome, Request
from ..schema.request_ids import RequestIds
from ..schema.wire import Answer, PredictRequest, Totals


class Logged(NamedTuple):
    """What the lines about an inference request have in common, as in `Entry`."""

    ids: RequestIds
    entrance: Entrance
    model: str
    arrived_s: float

    def log(
        self,
        log: AnswerLog,
        asks: Sequence[PredictRequest],
        answers: Sequence[Answer],
        answered: Sequence[tuple[Request, Outcome, float]],
        met: bool,
        facts: Mapping[str, float],
    ) -> None:
        """Add an entry for one item; for several, one with totals, and those drawn.

        `met` is True if all items are in the budget. `facts` are those of the budget
        that several items share: see `SharedBudget.facts`.
        """
        several = len(asks) > 1
        if several:
            self._add(log, _totals(answers, met, facts), None, None)
        triples = zip(asks, answers, answered, strict=True)
        for number, (ask, answer, (request, _, _)) in enumerate(triples):
            drawn = ask if log.draws() else None
            if not several:
                self._add(log, answer, request, drawn)
            elif drawn is not None:
                self._add(log, answer, request, drawn, number)

    def _add(
        self,
        log: AnswerLog,
        sent: Answer | Totals,
        request: Request | None,
        ask: PredictRequest | None,
        number: int | None = None,
    ) -> None:
        entry = Entry(
            self.ids,
            self.arrived_s,
            self.entrance,
            self.model,
            UNSET if request is None else request.item.size,
            sent,
            item=None if ask is None else lambda: ask,
            held=0 if ask is None else _bytes_of(ask),
            logged=number is None,
            number=number,
        )
        log.add(entry)


def _totals(answers: Sequence[Answer], met: bool, facts: Mapping[str, float]) -> Totals:
    count = len(answers)
    given = (answer.expected_accuracy for answer in answers)
    accuracies = [one for one in given if one is not None]
    return Totals(
        items=count,
        errors=0,
        expected_quality=math.fsum(a.expected_quality for a in answers) / count,
        expected_accuracy=math.fsum(accuracies) / count if accuracies else None,
        budget_met=met,
        budget_us=facts.get("budget_us"),
        spent_us=facts.get("elapsed_us"),
        budget=facts.get("budget"),
        spent=facts.get("predicted"),
    )


def _bytes_of(ask: PredictRequest) -> int:
    """Estimate the bytes of a request's item."""
    if ask.record is not None:
        return 64 * len(ask.record)
    return len(ask.text or ask.image_base64 or b"")
