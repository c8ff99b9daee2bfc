"""Find the items that are most likely of one class, with one budget for all items.

First every item gets a plan that the knapsack chooses. Meanwhile, a part of the budget
is reserved for second answers: enough to answer as many items as the list has places,
each with its best plan. Then items are answered again with their best plans, in
descending order of their scores, while the budget lasts. This is a cascade (Viola,
Jones 2001) with a threshold that follows from the budget. The ICSP paper does not solve
this problem.
"""

import heapq
import math
from collections.abc import Iterator, Mapping

from polydom.features.errors import BadFeature, BadInput, BadItem
from polydom.features.items import ReadRecord

from ..engine.request import Caller
from ..errors import TooLarge
from .batch_budget import Answered, Assignment, BatchBudget, carry_out
from .knapsack import Shape

# The first pass reserves the cost of the best plan for IMPROVED items per place of the
# list, but at most the share MOST of the budget (measured by the benchmark `batch`).
IMPROVED, MOST = 1, 0.5
# Number of candidates kept: KEPT for each place of the list, and AT_LEAST beyond.
KEPT, AT_LEAST = 8, 64
# KEPT_BYTES limits the bytes of all candidates. A number or name in a record, or the
# score of a class, takes about EACH bytes.
KEPT_BYTES, EACH = 128 << 20, 128


class TopK:
    """Collects the `top` items that are most likely of the class `label`.

    A candidate is an answered item. Only a limited number of candidates is in memory.
    The constructor changes `budget`: a part is reserved for second, better answers, and
    models are evaluated completely, so that all answers have scores.
    """

    def __init__(self, budget: BatchBudget, label: str, top: int) -> None:
        labels = budget.planner.package.labels
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
        self._budget = budget
        self._label = label
        self._top = top
        # the least likely come first, then the latest; as item numbers are unique,
        # tuples never compare candidates
        self._heap: list[tuple[float, int, Answered]] = []
        self._improved: list[Answered] = []
        self._best_cost = 0.0
        self.kept_bytes = 0
        self._offered = 0
        budget.reserved = MOST * budget.amount
        budget.need_scores()

    def offer(self, candidate: Answered) -> None:
        """Add a candidate. If there are too many candidates, drop the least likely.

        Raises TooLarge if the `top` likeliest alone take more than `KEPT_BYTES` of
        memory.
        """
        self._offered += 1
        hull = self._budget.hulls.of(Shape.of(candidate.item))
        self._best_cost += float(hull.costs[-1])
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
        budget = self._budget
        budget.reserved = min(
            MOST * budget.amount, budget.spent_by(cost, IMPROVED * self._top)
        )

    def improve(self, caller: Caller | None = None) -> Iterator[Answered]:
        """Answer candidates again with their best plans, while the budget lasts.

        The likeliest candidates come first. Yields each candidate when it has its final
        answer.
        """
        budget = self._budget
        budget.reserved = 0.0
        self._heap.sort()
        while self._heap:
            candidate = self._heap[-1][2]
            item, outcome = candidate.item, candidate.outcome
            hull = budget.hulls.of(Shape.of(item))
            row = int(hull.rows[-1])
            if row != outcome.row:
                cost = float(hull.costs[-1])
                if cost > budget.left_for_plans(1):
                    return
                again = Assignment(item, row, exact=True)
                try:
                    better = carry_out(budget.planner, again, caller)
                except (BadFeature, BadItem):  # the first answer remains
                    budget.charge_failed(again)
                else:
                    budget.record_better(outcome, better)
                    candidate = candidate._replace(outcome=better)
            self._improved.append(candidate)
            self._heap.pop()
            yield candidate

    def ranking(self) -> list[Answered]:
        """Return the `top` likeliest items; those with a final answer come first."""
        rest = [candidate for _, _, candidate in self._heap]
        ranked = [*self._likeliest_first(self._improved), *self._likeliest_first(rest)]
        return ranked[: self._top]

    def _likeliest_first(self, candidates: list[Answered]) -> list[Answered]:
        """Sort candidates by descending score, and by number if scores are equal."""
        return sorted(candidates, key=lambda one: (-self._score(one), one.number))

    def _score(self, candidate: Answered) -> float:
        return _scores(candidate).get(self._label, -math.inf)


def make_top_k(budget: BatchBudget, label: str | None, top: int | None) -> TopK | None:
    """Return a `TopK` for a request; None if it has neither `label` nor `top`.

    Raises BadInput if only one of the two is given.
    """
    if label is not None and top is not None:
        return TopK(budget, label, top)
    if label is not None or top is not None:
        raise BadInput("label and top go together: the likeliest items of a class")
    return None


def _scores(candidate: Answered) -> dict[str, float]:
    scores = candidate.outcome.scores
    assert scores is not None, "a list needs the scores that its budget asks for"
    return scores


def _bytes_of(candidate: Answered) -> int:
    fetched = candidate.fetches.fetched if candidate.fetches else ()
    size = EACH * (8 + len(_scores(candidate)) + len(fetched))
    payload = candidate.item.payload
    if isinstance(payload, Mapping):
        strings = (value for value in payload.values() if isinstance(value, str))
        return size + EACH * len(payload) + sum(map(len, strings))
    if isinstance(payload, ReadRecord):
        return size + payload.row.nbytes
    return size + len(payload)
