"""The items most likely of one class, found under one budget for all.

ICSP leaves this question open. Every item gets a plan by the knapsack, which leaves as
much as the best plans of a list's worth of items cost; then, from the top of the list
by its score, items get their best plans while the budget lasts. It is a cascade (Viola,
Jones 2001) whose threshold the budget sets.
"""

import heapq
import math
from collections.abc import Iterator, Mapping

from polydom.features.errors import BadFeature, BadInput, BadItem
from polydom.features.items import ReadRecord

from ..engine.request import Caller
from ..errors import TooLarge
from .knapsack import Shape
from .ledger import Answered, Assignment, Ledger, carry_out

# What is kept from the first round: the best plans of so many items for each place on
# the list, but no more than this share of the budget (benchmark `batch`).
IMPROVED, MOST = 1, 0.5
# Candidates kept for each place on the list, and at least this many more.
KEPT, AT_LEAST = 8, 64
# Bytes of all candidates. A number or a name in a record, and a class's score, take
# about EACH.
KEPT_BYTES, EACH = 128 << 20, 128


class TopK:
    """Candidates for the list, in memory that does not grow with the items.

    Attributes
    ----------
    kept_bytes
        Bytes of all that are kept, about.

    Parameters
    ----------
    ledger
        Of the batch; a part of the budget is kept from the first round, and all that
        is planned from now on gets scores.
    label
        The class asked for.
    top
        How many items the list has.

    Raises
    ------
    BadInput
        If there is no such class, or the list has no place.
    """

    def __init__(self, ledger: Ledger, label: str, top: int) -> None:
        labels = ledger.planner.package.labels
        if not labels:
            raise BadInput(
                "this index answers with numbers; only of classes can there be a list "
                "of the likeliest items"
            )
        if label not in labels:
            known = ", ".join(labels[:20])
            raise BadInput(f"there is no class {label[:80]!r}; the index has {known}")
        if top < 1:
            raise BadInput(f"top is {top}; it must be 1 or more")
        self._ledger = ledger
        self._label = label
        self._top = top
        # the least likely first; of equals the last to come: no two numbers are equal
        self._heap: list[tuple[float, int, Answered]] = []
        self._improved: list[Answered] = []
        self._best_cost = 0.0
        self.kept_bytes = 0
        self._offered = 0
        ledger.kept = MOST * ledger.amount
        ledger.need_scores()

    def offer(self, candidate: Answered) -> None:
        """Take a candidate, and let the least likely go where there are too many.

        Raises
        ------
        TooLarge
            If the list alone would take more than `KEPT_BYTES`.
        """
        self._offered += 1
        menu = self._ledger.menus.of(Shape.of(candidate.item))
        self._best_cost += float(menu.costs[-1])
        heapq.heappush(
            self._heap, (self._score(candidate), -candidate.number, candidate)
        )
        self.kept_bytes += _bytes_of(candidate)
        most = KEPT * self._top + AT_LEAST
        while len(self._heap) > most or self.kept_bytes > KEPT_BYTES:
            if len(self._heap) <= self._top:
                raise TooLarge(
                    f"the {len(self._heap):,} likeliest items hold more than the "
                    f"{KEPT_BYTES >> 20} MiB that are kept; ask for a smaller top"
                )
            _, _, out = heapq.heappop(self._heap)
            self.kept_bytes -= _bytes_of(out)
        cost = IMPROVED * self._top * self._best_cost / self._offered
        ledger = self._ledger
        ledger.kept = min(
            MOST * ledger.amount, ledger.spent_by(cost, IMPROVED * self._top)
        )

    def improve(self, caller: Caller | None = None) -> Iterator[Answered]:
        """Carry out the candidates' best plans, the likeliest first, within the budget.

        Raises
        ------
        Abandoned
            If the caller has gone.
        """
        ledger = self._ledger
        ledger.kept = 0.0
        self._heap.sort()
        while self._heap:
            number, item, outcome = candidate = self._heap[-1][2]
            menu = ledger.menus.of(Shape.of(item))
            row = int(menu.rows[-1])
            if row != outcome.row:
                cost = float(menu.costs[-1])
                if cost > ledger.left_for_plans(1):
                    return
                again = Assignment(item, row, exact=True)
                try:
                    better = carry_out(ledger.planner, again, caller)
                except (BadFeature, BadItem):  # it has an answer
                    ledger.waste(again)
                else:
                    ledger.improve(outcome, better)
                    candidate = Answered(number, item, better)
            self._improved.append(candidate)
            self._heap.pop()
            yield candidate

    def ranking(self) -> list[Answered]:
        """List the likeliest items, those with their best plans before all others."""
        rest = [candidate for _, _, candidate in self._heap]
        ranked = [*self._likeliest_first(self._improved), *self._likeliest_first(rest)]
        return ranked[: self._top]

    def _likeliest_first(self, candidates: list[Answered]) -> list[Answered]:
        """Sort by score; equals by when they came."""
        return sorted(candidates, key=lambda one: (-self._score(one), one.number))

    def _score(self, candidate: Answered) -> float:
        return _scores(candidate).get(self._label, -math.inf)


def make_top_k(ledger: Ledger, label: str | None, top: int | None) -> TopK | None:
    """Begin a list if a class and its length are given; BadInput for one alone."""
    if label is not None and top is not None:
        return TopK(ledger, label, top)
    if label is not None or top is not None:
        raise BadInput("label and top go together: the likeliest items of a class")
    return None


def _scores(candidate: Answered) -> dict[str, float]:
    scores = candidate.outcome.scores
    assert scores is not None, "a list needs the scores that its ledger asks for"
    return scores


def _bytes_of(candidate: Answered) -> int:
    """Bytes that a candidate takes, about."""
    size = EACH * (8 + len(_scores(candidate)))
    payload = candidate.item.payload
    if isinstance(payload, Mapping):
        strings = (value for value in payload.values() if isinstance(value, str))
        return size + EACH * len(payload) + sum(map(len, strings))
    if isinstance(payload, ReadRecord):
        return size + payload.row.nbytes
    return size + len(payload)
