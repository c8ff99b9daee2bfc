"""Parameters and deadlines of Open Inference requests, and the budget they set."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from polydom.features.errors import BadInput
from polydom.features.wording import describe_decode_error, nearest

from ..engine.budget import Budget, Deadline, budget_of, read_amount
from ..schema.wire import PredictRequest
from ..settings import Settings

Parameter = bool | int | float | str

_OWN = (
    "budget_ms",
    "budget",
    "on_infeasible",
    "min_quality",
    "exact",
    "threshold",
    "fetch",
    "max_price",
    "explain",
)
_READ = (*_OWN, "timeout")
# Parameters that refuse a request: they rely on earlier requests, which polydom does
# not remember.
_OF_SEQUENCES = ("sequence_id", "sequence_start", "sequence_end")
# Similarity from which a name counts as a misspelt parameter.
_MISSPELT = 0.8
# Maximum number of parameters whose names are compared with the known names; each
# comparison takes tens of microseconds.
_COMPARED = 32
# Part of a caller's deadline reserved for the way back: the share KEPT_SHARE, but at
# most KEPT_MAX_S seconds.
KEPT_SHARE, KEPT_MAX_S = 0.1, 0.01


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of an Open Inference request that polydom understands."""

    named: Mapping[str, Any]  # Fields of `PredictRequest` to set, by name
    # Seconds that the caller waits at most; None if unknown
    caller_timeout_s: float | None = None

    @classmethod
    def read(
        cls, parameters: Mapping[str, Any], caller_timeout_s: float | None
    ) -> "Parameters":
        """Read and check the parameters of a request.

        Unknown parameters, such as `content_type`, are ignored, because clients send
        many of them. Raises BadInput for an unknown name that is similar to a known
        one, because a misspelt budget would have no effect.
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
        return cls(named, caller_timeout_s)

    def give(self, ask: PredictRequest) -> None:
        """Set these parameters in `ask`, the request for one item."""
        for name, value in self.named.items():
            setattr(ask, name, value)

    def shared(
        self, unit: str, settings: Settings, arrived_s: float, reserve_s: float = 0.0
    ) -> "SharedBudget":
        """Return the budget that all items of the request share.

        `unit` is the index's unit of cost, "s" for seconds. A time budget begins at
        `arrived_s`. It reserves `reserve_s` seconds for sending, once for all items,
        because all answers are sent together.
        """
        named = self.named
        amount = read_amount(unit, named.get("budget_ms"), named.get("budget"))
        if unit == "s" and self.caller_timeout_s is not None:
            back_s = min(KEPT_SHARE * self.caller_timeout_s, KEPT_MAX_S)
            useful_s = max(self.caller_timeout_s - back_s, 0.0)
            amount = useful_s if amount is None else min(amount, useful_s)
        ask = "the parameter 'budget' how much the items"
        budget = budget_of(unit, amount, settings, arrived_s, reserve_s, ask)
        return SharedBudget(budget)


def _add_timeout(named: dict[str, Any], value: Any, has_budget: bool) -> None:
    """Set `budget_ms` to a timeout of `value` microseconds; 0 means no timeout.

    Raises BadInput if `has_budget`: a request may not have a timeout and a budget.
    """
    if type(value) is not int or value < 0:
        raise BadInput(
            f"timeout is {value!r:.40}; it is in microseconds: a whole number, 0 or "
            "more"
        )
    if has_budget:
        raise BadInput("the budget is given twice: as timeout and as budget_ms")
    if value:
        named["budget_ms"] = value / 1e3


@dataclass(slots=True)
class SharedBudget:
    """One budget for several items; each may spend an equal share of what is left."""

    budget: Budget  # The whole budget
    # Sum of the predicted costs of plans so far; it reduces a money budget
    spent: float = 0.0

    def give(self, ask: PredictRequest, now_s: float, items: int) -> None:
        """Set the budget of `ask` to an equal share of what is left.

        `items` is the number of items not yet answered, including this one.
        """
        budget = self.budget
        if isinstance(budget, Deadline):
            share_s = budget.left(now_s) / items + budget.reserve_s
            left_s = max(budget.due_s - now_s, 0.0)
            ask.budget_ms = min(max(share_s, 0.0), left_s) * 1e3
        else:
            ask.budget = max(budget.amount - self.spent, 0.0) / items

    def met(self, out_s: float) -> bool:
        """Return True if answers that are sent at `out_s` meet the budget."""
        budget = self.budget
        if isinstance(budget, Deadline):
            return out_s <= budget.due_s
        # rounding may make the shares exceed the budget slightly
        return self.spent <= budget.amount or math.isclose(self.spent, budget.amount)

    def facts(self, now_s: float) -> dict[str, float]:
        """Return response fields with the budget and the part spent until `now_s`."""
        budget = self.budget
        if isinstance(budget, Deadline):
            return {
                "budget_us": round(budget.amount * 1e6, 1),
                "elapsed_us": round((now_s - budget.arrived_s) * 1e6, 1),
            }
        return {"budget": budget.amount, "predicted": self.spent}
