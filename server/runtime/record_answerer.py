"""A fast path for requests about records, which uses only the most accurate plan."""

from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from polydom.features.items import Gaps, ReadRecord

from ..engine.monitoring.cost_drift import LEAST_S
from ..engine.monitoring.input_sketch import ALL, InputSketch
from ..engine.request import Request
from ..engine.send_time import SendTime
from ..metrics.answer_batch import EVERY, AnswerBatch, Batch
from ..schema.wire import Answer, Terms, encode
from .translator import Translator

SIZE = 1.0  # the size of every record


class RecordAnswerer:
    """A fast path for requests about records, which uses only the most accurate plan.

    It is possible if the record has all columns that the features need, the budget is
    surely enough, and the request has no unusual terms, such as `exact`. Then no plan
    is chosen: the model evaluates the row, and one `Answer` object, reused for all
    requests, is filled in and encoded. In all other cases, `answer` returns None, and
    the caller uses the slower path: `Translator` and `execution.begin`. It also gives
    the same answers where the fast path is possible.

    Use this object only in the event loop, because requests share one `Answer`. Create
    it after the warm-up, because the index must not change. If `applies` is False, no
    request to this index can be answered here, and `answer` must not be called.
    `sent_together` is called with the features of the plan to count written answers,
    and `lacks` to count the gaps of a record that was answered. `sketch` samples the
    answered records.
    """

    def __init__(
        self,
        translator: Translator,
        send_time: SendTime,
        sent_together: Callable[[tuple[str, ...], Batch], object],
        lacks: Callable[[Gaps], object],
        sketch: InputSketch | None = None,
    ) -> None:
        planner, settings = translator.planner, translator.settings
        self._planner, self._now, self._audit = planner, planner.now, planner.audit
        self._send_time, self._sent_together = send_time, sent_together
        self._lacks, self._sketch = lacks, sketch
        self._batch = AnswerBatch(self._count, self._now)
        # Row and answer for the sketch, of the first answer of a turn
        self._sampled: tuple[NDArray[np.float32], Any, float] | None = None
        self._usual_s = min(settings.budget_s, settings.max_budget_s)
        self._most_s = settings.max_budget_s
        row, self._cost = planner.top(SIZE)
        self._row, self._missing = row, translator.missing
        exits = planner.early_exits[row]
        self._fill, self._base_models = self._fill_scores, 0
        self._ask: Any = planner.package.models[row].answer
        self._labels, self._interval = (), (0.0, 0.0)
        if planner.intervals:
            self._fill, self._interval = self._fill_value, planner.intervals[row]
        else:
            self._labels = planner.labels[row]
        if exits is not None:
            self._fill, self._base_models = self._fill_early_scores, exits.size
            self._ask = exits.answer
        self.applies = (
            translator.unit == "s"
            and planner.index.covers(SIZE)
            and self._cost < LEAST_S
            and not planner.plans[row].exits
            and (exits is None or not planner.audit.share)
        )
        self._answer = Answer(
            label=None,
            scores=None,
            features=planner.feature_names[row],
            expected_quality=planner.qualities[row],
            expected_accuracy=planner.accuracies[row],
            reason=None,
            budget_met=True,
            actual_us=0.0,
            queue_us=0.0,
            elapsed_us=0.0,
            threshold=planner.thresholds[row] or UNSET,
            base_models=self._base_models or UNSET,
            index_version=planner.index.version,
        )
        self._foretell()

    def answer(
        self,
        terms: Terms,
        row: NDArray[np.float32],
        gaps: Gaps | None,
        arrived_s: float,
        when_written: Callable[[Callable[[], object]], object],
    ) -> bytes | None:
        """Return the encoded answer for a row; None if the fast path is impossible.

        `terms`, `row` and `gaps` come from `RecordDecoder.read`. `arrived_s` is when
        the request's first byte arrived. `when_written` takes a function, and calls it
        after the answer is written.
        """
        planner, answer, send_time = self._planner, self._answer, self._send_time
        if gaps is not None:
            if gaps.withheld or gaps.unknown:
                return None
            answer.missing = self._missing(gaps, self._row) or UNSET
            try:
                encoded = self.answer(terms, row, None, arrived_s, when_written)
            finally:
                answer.missing = UNSET
            if encoded is not None:
                self._lacks(gaps)
            return encoded
        read_s = self._now()
        given_ms = terms.budget_ms
        amount = self._usual_s if given_ms is None else given_ms / 1e3
        if amount > self._most_s:
            amount = self._most_s
        reserve_s = send_time.at(arrived_s)
        due_s = arrived_s + amount
        if not (
            self._predicted_s <= due_s - reserve_s - read_s
            and 0.0 <= (terms.min_quality or 0.0) <= answer.expected_quality
            and terms.budget is None
            and not terms.exact
            and not terms.explain
            and terms.threshold is None
            and planner.drift.factor == 1.0
            and not planner.suspects
        ):
            return None
        self._fill(row)
        finished_s = self._now()
        took_s = finished_s - read_s
        if took_s > LEAST_S:
            planner.suspects = True  # time the next plan, as this one was slow
        answer.budget_met = finished_s + send_time.usual <= due_s
        answer.budget_us = int(amount * 1e7 + 0.5) / 10
        answer.reserve_us = int((amount - (amount - reserve_s)) * 1e7 + 0.5) / 10
        answer.actual_us = int(took_s * 1e7 + 0.5) / 10
        answer.elapsed_us = int((finished_s - arrived_s) * 1e7 + 0.5) / 10
        encoded = encode(answer)
        label, times = answer.label, (arrived_s, read_s, finished_s, due_s)
        if self._batch.add(label, answer.reason, *times, self._predicted_s):
            when_written(self._when_written)
            if self._sketch is not None and finished_s >= self._sketch.next_s:
                told = answer.value if label is None else label
                self._sampled = row.copy(), told, finished_s
        return encoded

    def answer_fetched(
        self,
        terms: Terms,
        request: Request,
        when_written: Callable[[Callable[[], object]], object],
    ) -> bytes | None:
        """Do as `answer` for a record whose fetches have come or are left behind.

        `request` comes from `RequestFetches.settled`, and its features read only a row.
        """
        answer, fetches, read = self._answer, request.fetches, request.item.payload
        if not self.applies or fetches is None or not isinstance(read, ReadRecord):
            return None
        if fetches.hoped > answer.expected_quality:
            return None
        answer.fetched, answer.price = fetches.fetched, fetches.price or UNSET
        answer.fetch_us = int(fetches.waited_s * 1e7 + 0.5) / 10
        gaps, arrived_s = request.item.gaps, request.arrived_s
        try:
            return self.answer(terms, read.row, gaps, arrived_s, when_written)
        finally:
            answer.fetched = answer.price = answer.fetch_us = UNSET

    def _when_written(self) -> None:
        self._batch.written()
        if self._sampled is not None and self._sketch is not None:
            (row, told, now_s), self._sampled = self._sampled, None
            self._sketch.add(row, ALL, SIZE, told, now_s)

    def _count(self, batch: Batch) -> None:
        self._sent_together(self._answer.features, batch)
        if self._planner.corrects:
            answering = self._planner.answering
            for took_s in (batch.finished_s - batch.read_s)[::EVERY].tolist():
                answering.add(took_s > self._cost + answering.more_s)
            self._foretell()

    def _foretell(self) -> None:
        """Set the predicted time of the next answers."""
        self._predicted_s = self._cost + self._planner.answering.more_s
        self._answer.predicted_us = int(self._predicted_s * 1e7 + 0.5) / 10

    def _fill_scores(self, row: NDArray[np.float32]) -> None:
        code, scores = self._ask(row)
        labels, answer = self._labels, self._answer
        answer.label = labels[code]
        answer.scores = dict(zip(labels, scores))  # noqa: B905  # takes twice as long

    def _fill_early_scores(self, row: NDArray[np.float32]) -> None:
        """Fill in the answer of a model that may stop before its last base model."""
        code, used, scores, bounds = self._ask(row)
        labels, answer = self._labels, self._answer
        answer.label, answer.base_models_used = labels[code], used
        # zip without `strict`, which takes twice as long
        answer.scores = None if scores is None else dict(zip(labels, scores))  # noqa: B905
        if bounds is not None:
            answer.score_bounds = dict(zip(labels, bounds))  # noqa: B905
        if self._audit.follow(used, self._base_models):
            answer.early, answer.reason = True, "sure"
            self._audit.add()
        else:
            answer.early, answer.reason = UNSET, None

    def _fill_value(self, row: NDArray[np.float32]) -> None:
        _, (value,) = self._ask(row)
        low, high = self._interval
        self._answer.value = value
        self._answer.interval = value + low, value + high
