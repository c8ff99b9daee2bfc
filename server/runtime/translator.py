"""Converts wire requests into a planner's requests, and outcomes into wire answers."""

import math
from collections.abc import Mapping
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from polydom.features.errors import BadInput, BadItem
from polydom.features.file_kinds import IMAGES, START, format_of
from polydom.features.items import MAPPINGS, Gaps, Item, make_item
from polydom.indexer.index.fetches.stored_fetches import needs_of
from polydom.models.scoring.classifier import gives_probabilities

from ..engine.budget import Deadline, MoneyBudget, budget_of, read_amount
from ..engine.executions.execution import execute
from ..engine.planning.planner import Planner
from ..engine.request import Caller, Outcome, Part, Request, with_fetches
from ..engine.send_time import HEAVY, SendTime, weigh
from ..schema.wire import (
    Answer,
    BestNext,
    Explained,
    FeatureState,
    FetchState,
    PredictRequest,
    Terms,
)
from ..settings import Settings
from .known_columns import KnownColumns
from .record_decoder import RecordDecoder

NO_TERMS = Terms()
# States of fetches that did not bring columns, as those of features that need them.
UNMET: dict[FetchState, FeatureState] = {
    "late": "late",
    "failed": "failed",
    "not_sent": "not_sent",
}
# Assumed seconds from a plan's end to its answer, until `AtOnce` measures them.
AFTER_S = 1e-5


class Translator:
    """Makes a `Request` from terms and an item, and an `Answer` from an outcome."""

    def __init__(self, planner: Planner, settings: Settings) -> None:
        self.planner = planner
        self.settings = settings
        package = planner.package
        self.unit = planner.unit
        self._pairs = planner.index.pairs
        self.known_columns = KnownColumns.of(package)
        # Number of columns that the index knows; 0 if its features may read any column
        self.columns = len(self.known_columns.names)
        # Bit mask of the columns that each row of the index reads
        self.columns_of = tuple(map(self.known_columns.read_by, package.masks.tolist()))
        # Mask of the fetches that each feature needs
        self._needs = needs_of(package.features, package.fetches)
        is_record = package.kind == "record"
        self._records = RecordDecoder(planner.extractor, self.known_columns)
        # Decoder with the faster `read`; None if features read more than columns
        has_faster = is_record and self._records.whole
        self.record_decoder = self._records if has_faster else None
        # Gaps of a text or an image before any fetch has come; None without fetches
        self._unfetched = None
        if package.fetches and not is_record:
            every = sum(self.known_columns.bits.values())
            withheld = self.known_columns.withheld(0, every)
            self._unfetched = Gaps(withheld=withheld, unfetched=every)
        # every record has the same size
        self._one_size = is_record and planner.index.covers(1.0)

    def request(
        self,
        terms: Terms,
        item: Item,
        arrived_s: float,
        caller: Caller,
        send_time: SendTime | None = None,
    ) -> Request:
        """Return the planner's request for an item; raise BadInput for bad terms."""
        quality = terms.min_quality or 0.0
        if not 0 <= quality <= 1:
            raise BadInput(f"min_quality is {quality}; it must be in [0, 1]")
        if terms.threshold is not None:
            self._check_threshold(terms.threshold)
        check_price(terms.max_price)
        reserve_s = 0.0 if send_time is None else send_time.at(arrived_s)
        amount = read_amount(self.unit, terms.budget_ms, terms.budget)
        return Request(
            item,
            budget_of(self.unit, amount, self.settings, arrived_s, reserve_s),
            terms.on_infeasible or "prior",
            quality,
            caller,
            arrived_s if caller.read_s > arrived_s else math.inf,
            arrived_s,
            self.planner.now(),
            send_time,
            bool(terms.exact) or terms.threshold is not None,
            terms.threshold,
            bool(terms.explain),
            bool(terms.explain) or caller.trace is not None,
            ids=caller.ids,
        )

    def _check_threshold(self, threshold: float) -> None:
        """Raise BadInput unless the index has two classes and the threshold suits."""
        package = self.planner.package
        if package.positive is None:
            count = len(package.labels)
            given = f"{count} classes" if count else "numbers"
            raise BadInput(
                f"threshold is for an index of two classes; this one answers {given}"
            )
        if not 0 <= threshold <= 1:
            raise BadInput(f"threshold is {threshold}; it must be in [0, 1]")
        if not all(map(gives_probabilities, package.models)):
            raise BadInput(
                "threshold is for probabilities; the scores of this index are none"
            )

    def weighed(self, request: Request) -> Request:
        """Return the request with the best reserve, the part of the budget for sending.

        A smaller reserve allows a better plan, but the answer is late more often. The
        best reserve gives the highest expected quality. If the reserve is at most the
        share `HEAVY` of the budget, it is left unchanged.
        """
        budget = request.budget
        if isinstance(budget, MoneyBudget):
            return request
        if budget.reserve_s <= HEAVY * budget.amount:
            return request
        return self._with_best_reserve(request, budget)

    def weighed_late(self, request: Request) -> Request:
        """Return a request that has waited, with the best reserve for sending.

        If the wait ended too late for any plan, a smaller reserve may still allow one.
        """
        budget, planner = request.budget, self.planner
        if isinstance(budget, MoneyBudget):
            return request
        left_s = budget.left(planner.now())
        row = planner.best_without(request.item.withheld, request, left_s)
        quality, least = planner.qualities[row], planner.qualities[planner.prior]
        if quality > least and quality >= request.min_quality:
            return request
        return self._with_best_reserve(request, budget)

    def _with_best_reserve(self, request: Request, budget: Deadline) -> Request:
        send_time, planner = request.send_time, self.planner
        if send_time is None:
            return request
        now_s = planner.now()
        left_s = budget.keeping(0.0).left(now_s)
        levels = send_time.levels(now_s)

        def quality(kept_s: float) -> float:
            return planner.quality_within(request, left_s - kept_s, now_s)

        # at once if only the prior fits, even with the smallest reserve
        most = quality(levels[-1].seconds)
        if most <= planner.qualities[planner.prior]:
            return request
        kept_s = weigh(levels, quality, most)
        return replace(request, budget=budget.keeping(kept_s))

    def answer(self, request: Request, outcome: Outcome) -> Answer:
        """Return the answer for an outcome.

        `budget_met` takes the estimated time to send the answer into account.
        """
        planner, budget = self.planner, request.budget
        now_s = planner.now()
        out_s = max(now_s, request.out_s(outcome.finished_s))
        started_s, finished_s = outcome.started_s, outcome.finished_s
        # This rounds to tenths of microseconds. Calling a function or `round` for that
        # would take a third of the time of the whole answer.
        answer = Answer(
            label=outcome.label,
            scores=outcome.scores,
            features=planner.feature_names[outcome.row],
            expected_quality=outcome.quality,
            expected_accuracy=outcome.accuracy,
            reason=outcome.reason,
            budget_met=out_s <= budget.due_s,
            actual_us=int((finished_s - started_s) * 1e7 + 0.5) / 10,
            queue_us=int((started_s - request.read_s) * 1e7 + 0.5) / 10,
            elapsed_us=int((now_s - request.arrived_s) * 1e7 + 0.5) / 10,
            index_version=planner.index.version,
        )
        if outcome.value is not None and outcome.interval is not None:
            answer.value, answer.interval = outcome.value, outcome.interval
        if outcome.early:
            answer.early = True
        if request.threshold is not None and planner.package.positive is not None:
            answer.threshold = {planner.package.positive: request.threshold}
        elif (threshold := planner.thresholds[outcome.row]) is not None:
            answer.threshold = threshold
        if outcome.base_models is not None and outcome.base_models_used is not None:
            answer.base_models = outcome.base_models
            answer.base_models_used = outcome.base_models_used
            if outcome.score_bounds is not None:
                answer.score_bounds = outcome.score_bounds
        item = request.item
        if not (self._one_size or planner.index.covers(item.size)):
            answer.size_in_range = False
        if item.gaps is not None:
            self._report_gaps(answer, item.gaps, request, outcome)
        if request.fetches is not None:
            fetches = request.fetches
            answer.fetched = fetches.fetched
            answer.fetch_us = int(fetches.waited_s * 1e7 + 0.5) / 10
            answer.price = fetches.price or UNSET
        if request.explain:
            answer.explained = self._explained(request, outcome)
        if self.unit == "s":
            amount = budget.amount
            answer.budget_us = int(amount * 1e7 + 0.5) / 10
            answer.predicted_us = int(outcome.predicted * 1e7 + 0.5) / 10
            answer.reserve_us = int((amount - budget.whole) * 1e7 + 0.5) / 10
        else:
            answer.budget = budget.amount
            answer.predicted = outcome.predicted
            answer.budget_met = outcome.predicted <= budget.amount
        return answer

    def _explained(self, request: Request, outcome: Outcome) -> tuple[Explained, ...]:
        """Return what became of each feature, each fetch and the model."""
        package, withheld = self.planner.package, request.item.withheld
        fetched = {} if request.fetches is None else request.fetches.fetched
        answered = int(package.masks[outcome.row])
        told = []
        for k, (feature, needs) in enumerate(
            zip(package.features, self._needs, strict=True)
        ):
            own = [one.name for u, one in enumerate(package.fetches) if needs >> u & 1]
            unmet = [n for n in own if n in fetched and fetched[n].state in UNMET]
            state: FeatureState = "not_planned"
            if answered >> k & 1:
                state = "answered"
            elif outcome.computed >> k & 1:
                state = "computed"
            elif outcome.failed >> k & 1:
                state = "failed"
            elif withheld >> k & 1:
                state = UNMET[fetched[unmet[0]].state] if unmet else "missing"
            fetch = next(iter(unmet + own), UNSET)
            told.append(Explained(feature.name, state, fetch=fetch))
        told += [Explained(name, one.state, "fetch") for name, one in fetched.items()]
        told.append(Explained("model", "answered", "model"))
        times = {(part.kind, part.name): self._times(part) for part in outcome.parts}
        if request.fetches is not None:
            parts = request.fetches.parts
            times |= {("fetch", part.name): self._times(part) for part in parts}
        return tuple(
            replace(one, **times.get((one.part or "feature", one.name), {}))
            for one in told
        )

    def _times(self, part: Part) -> dict[str, float]:
        """Return what a part took, as fields of `Explained`."""
        seconds = {"took_us": part.ended_s - part.began_s}
        if self.unit == "s":
            seconds |= {"planned_us": part.planned, "left_us": part.left}
        return {
            name: int(value * 1e7 + 0.5) / 10
            for name, value in seconds.items()
            if math.isfinite(value)
        }

    def _report_gaps(
        self, answer: Answer, gaps: Gaps, request: Request, outcome: Outcome
    ) -> None:
        """Set the answer's fields `unknown`, `missing` and `best_next`."""
        if gaps.unknown:
            answer.unknown = gaps.unknown
        if missing := self.missing(gaps, outcome.row):
            answer.missing = missing
        if not gaps.withheld:
            return
        if self.planner.package.kind != "record":
            return  # a caller cannot send what a fetch did not bring
        planner, drift = self.planner, outcome.drift
        quality, chosen_s = planner.qualities[outcome.row], outcome.started_s
        found = self._found_empty(gaps, request)
        never = self.known_columns.withheld(found) if found else 0
        wanted = planner.wanted_for(request, quality, chosen_s, drift, never)
        # items of a batch have no budget of their own
        if wanted < 0 and outcome.reason == "missing":
            wanted = planner.wanted(request.item, math.inf, quality, never=never)
        if wanted >= 0:
            features = int(planner.package.masks[wanted]) & gaps.withheld
            lacking = self.known_columns.read_by(features) & gaps.empty & ~found
            names = self.known_columns.named(lacking)
            answer.best_next = BestNext(names, planner.qualities[wanted])

    def _found_empty(self, gaps: Gaps, request: Request) -> int:
        """Return a mask of the empty columns for which a fetch found nothing."""
        if request.fetches is None:
            return 0
        fetched, bits = request.fetches.fetched, self.known_columns.fetched
        found = sum(
            bits[name]
            for fetch in self.planner.package.fetches
            if fetched[fetch.name].state in ("came", "kept")
            for name in fetch.columns
        )
        return found & gaps.empty

    def missing(self, gaps: Gaps, row: int) -> int:
        """Count the empty columns that the feature set in row `row` reads."""
        return (gaps.empty & self.columns_of[row]).bit_count()

    def item(self, ask: PredictRequest) -> Item:
        """Return the item of a request.

        Raises BadItem unless the request has one item, and the item has the index's
        kind.
        """
        kind = self.planner.package.kind
        given = {"text": ask.text, "record": ask.record, "image": ask.image_base64}
        payload = given[kind]
        if payload is None or [*given.values()].count(None) != len(given) - 1:
            field = "image_base64" if kind == "image" else kind
            raise BadItem(
                f"this index classifies one {kind} per request: give {field!r}"
            )
        return self.read(payload, ask)

    def read(self, payload: object, terms: Terms = NO_TERMS) -> Item:
        """Make an item from the bytes of an image, a text, or a mapping of columns.

        Raises BadItem if the item is invalid. All columns of a record are checked, even
        columns that the chosen plan does not read. Of an image, only the format is
        checked if the budget in `terms` pays only for the prior, which reads no image;
        its size then counts as the smallest of the index.
        """
        kind, limit = self.planner.package.kind, self.settings.image_limit
        unread = kind == "image" and self._buys_nothing(terms)
        if (
            unread
            and isinstance(payload, bytes)
            and format_of(payload[:START]) in IMAGES
        ):
            return Item("image", payload, self.planner.index.sizes[0])
        item = make_item(payload, kind, pair=self._pairs, max_decoded=limit)
        record = item.payload
        if self._unfetched is not None:
            return self._with_vectors(item, item.brought or {})
        if not isinstance(record, MAPPINGS):
            return item
        self.known_columns.check(record)
        return self._records.item(record)

    def read_fetched(self, item: Item, found: Mapping[str, Any]) -> Item:
        """Return an item with what fetches have found.

        For a record, `found` is the record with all columns that came; BadItem is
        raised as `read` does. For a text or an image, `found` has the vectors that
        came, and None for a fetch that found nothing.
        """
        if item.kind == "record":  # its values were checked when they came
            return self._records.item(found)
        return self._with_vectors(item, found)

    def _with_vectors(self, item: Item, found: Mapping[str, Any]) -> Item:
        """Return a text or an image with vectors, and the gaps that are left."""
        if not found:
            return replace(item, gaps=self._unfetched)
        empty = unfetched = 0
        for name, bit in self.known_columns.bits.items():
            unfetched |= 0 if name in found else bit
            empty |= bit if name in found and found[name] is None else 0
        brought = {name: own for name, own in found.items() if own is not None}
        if not empty | unfetched:
            return replace(item, gaps=None, brought=brought)
        withheld = self.known_columns.withheld(empty, unfetched)
        gaps = Gaps((), empty, withheld, unfetched)
        return replace(item, gaps=gaps, brought=brought)

    def _buys_nothing(self, terms: Terms) -> bool:
        """Return True if any item is answered by the prior within a given budget."""
        amount = terms.budget if terms.budget_ms is None else terms.budget_ms / 1e3
        if amount is None or terms.on_infeasible not in (None, "prior"):
            return False
        return self.planner.buys_nothing(amount)


def check_price(max_price: float | None) -> None:
    """Raise BadInput for a `max_price` below 0; None is any price."""
    if max_price is not None and not max_price >= 0:
        raise BadInput(f"max_price is {max_price}; 0 or more is needed")


class AtOnce:
    """Answers items without a server or queue. Only one thread may use the object."""

    def __init__(self, translator: Translator) -> None:
        self._translator = translator
        self._after = SendTime(usual=AFTER_S)

    def answer(self, terms: Terms, payload: object) -> Answer:
        """Return the answer for an item; its budget begins with this call."""
        return self.finish(self.begin(terms, payload))

    def begin(self, terms: Terms, payload: object) -> Request:
        """Return the request for an item; its budget begins with this call."""
        translator = self._translator
        arrived_s = translator.planner.now()
        item = translator.read(payload, terms)
        request = translator.request(terms, item, arrived_s, Caller(), self._after)
        return translator.weighed(request)

    def finish(self, request: Request, computed: Outcome | None = None) -> Answer:
        """Return the answer to a request, within the rest of its budget.

        `computed` is the outcome if it is known already.
        """
        translator = self._translator
        planner = translator.planner
        outcome = with_fetches(request, computed or execute(planner, request))
        at_once = replace(request, read_s=outcome.started_s)
        answer = translator.answer(at_once, outcome)
        now_s = planner.now()
        self._after.add(now_s - outcome.finished_s, now_s)
        return answer
