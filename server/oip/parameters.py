"""On what terms the Open Inference Protocol's callers ask: parameters and deadlines."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from polydom.features.errors import BadInput
from polydom.features.wording import describe_decode_error, nearest

from ..engine.budget import Deadline, MoneyBudget, read_amount
from ..schema.wire import PredictRequest
from ..settings import Settings

Parameter = bool | int | float | str

_OWN = ("budget_ms", "budget", "on_infeasible", "min_quality", "exact")
_READ = (*_OWN, "timeout")
# Whoever gives these counts on what was asked before.
_OF_SEQUENCES = ("sequence_id", "sequence_start", "sequence_end")
# How alike a name is to one that is read to be taken for that one misspelt.
_MISSPELT = 0.8
# Parameters of a request that are looked at for that, at tens of microseconds each.
_COMPARED = 32
# Of a caller's deadline, what is kept for the way back, which nobody here measures.
KEPT_SHARE, KEPT_MAX_S = 0.1, 0.01


@dataclass(frozen=True, slots=True)
class Parameters:
    """What a request's parameters say.

    Attributes
    ----------
    named
        The terms of a `PredictRequest`.
    patience_s
        Seconds that the caller waits at most; None where that is unknown.
    """

    named: Mapping[str, Any]
    patience_s: float | None = None

    @classmethod
    def read(
        cls, parameters: Mapping[str, Any], patience_s: float | None
    ) -> "Parameters":
        """Check the parameters; BadInput where one cannot be read.

        Clients send many that have no meaning here, such as `content_type`. They are
        left alone, but for one that is nearly the name of one that is read: who
        misspelt a budget would wonder what became of it. So are those of a sequence.
        """
        named: dict[str, Any] = {}
        given = {name: v for name, v in parameters.items() if v is not None}
        for name, value in given.items():
            if name in _OWN:
                named[name] = value
            elif name == "timeout":
                _add_timeout(named, value, "budget_ms" in given)
            elif name in _OF_SEQUENCES and value:
                raise BadInput(
                    f"parameter {name!r} is unknown: each request is answered by "
                    "itself, and none belongs to a sequence"
                )
            elif len(given) <= _COMPARED and (meant := nearest(name, _READ, _MISSPELT)):
                raise BadInput(
                    f"parameter {name[:80]!r} is unknown; did you mean {meant!r}? "
                    "timeout is in microseconds, budget_ms in milliseconds"
                )
        try:
            msgspec.convert(named, PredictRequest)
        except msgspec.ValidationError as error:
            raise BadInput(
                f"parameters: {describe_decode_error(error, PredictRequest)}"
            ) from error
        return cls(named, patience_s)

    def give(self, ask: PredictRequest) -> None:
        """Set all that does not depend on how many items there are."""
        for name, value in self.named.items():
            setattr(ask, name, value)

    def shared(
        self, unit: str, settings: Settings, arrived_s: float, reserve_s: float = 0.0
    ) -> "SharedBudget":
        """Return the budget that all items share.

        Parameters
        ----------
        unit, settings
            The index's and the operator's.
        arrived_s
            When time began to run.
        reserve_s
            What every item's share will be reduced by for sending its answer. They are
            sent together, so the budget is reduced by it only once.

        Raises
        ------
        BadInput
            As `read_amount`; also if none is given where time does not count.
        """
        named = self.named
        amount = read_amount(unit, named.get("budget_ms"), named.get("budget"))
        if unit != "s":
            if amount is None:
                raise BadInput(
                    f"this index counts costs in {unit}: say with the parameter "
                    "'budget' how much the items may cost"
                )
            return SharedBudget(MoneyBudget(amount))
        if self.patience_s is not None:
            useful_s = _useful_s(self.patience_s)
            amount = useful_s if amount is None else min(amount, useful_s)
        allowed_s = settings.budget_s if amount is None else amount
        allowed_s = min(allowed_s, settings.max_budget_s)
        return SharedBudget(Deadline(arrived_s, allowed_s, reserve_s))


def _useful_s(patience_s: float) -> float:
    return max(patience_s - min(KEPT_SHARE * patience_s, KEPT_MAX_S), 0.0)


def _add_timeout(named: dict[str, Any], value: Any, twice: bool) -> None:
    """Read Triton's timeout: whole microseconds, of which 0 stand for none given."""
    if type(value) is not int or value < 0:
        raise BadInput(
            f"timeout is {value!r:.40}; it is in microseconds: a whole number, 0 or "
            "more"
        )
    if twice:
        raise BadInput("the budget is given twice: as timeout and as budget_ms")
    if value:
        named["budget_ms"] = value / 1e3


@dataclass(slots=True)
class SharedBudget:
    """One budget for several items, of which each gets an even share of what is left.

    Attributes
    ----------
    budget
        The whole of it. Time runs whatever is done; another amount is what plans spend.
    spent
        What the plans of the items were to cost so far.
    """

    budget: Deadline | MoneyBudget
    spent: float = 0.0

    def give(self, ask: PredictRequest, now_s: float, items: int) -> None:
        """Give the next item its share, as the first of `items` that remain."""
        budget = self.budget
        if isinstance(budget, Deadline):
            share_s = budget.left(now_s) / items + budget.reserve_s
            left_s = max(budget.due_s - now_s, 0.0)
            ask.budget_ms = min(max(share_s, 0.0), left_s) * 1e3
        else:
            ask.budget = max(budget.amount - self.spent, 0.0) / items

    def met(self, out_s: float) -> bool:
        """Say whether it suffices for answers that are out at `out_s`."""
        budget = self.budget
        if isinstance(budget, Deadline):
            return out_s <= budget.due_s
        # but for rounding
        return self.spent <= budget.amount or math.isclose(self.spent, budget.amount)

    def facts(self, now_s: float) -> dict[str, float]:
        """Say what it was, and what was spent of it by `now_s`."""
        budget = self.budget
        if isinstance(budget, Deadline):
            return {
                "budget_us": round(budget.amount * 1e6, 1),
                "elapsed_us": round((now_s - budget.arrived_s) * 1e6, 1),
            }
        return {"budget": budget.amount, "predicted": self.spent}
