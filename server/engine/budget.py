"""The budget of one request: the time until a deadline, or an amount of money."""

import math

import msgspec

from polydom.features.errors import BadInput

from ..settings import Settings


class Deadline(msgspec.Struct, frozen=True, gc=False):
    """A time budget that runs from the first byte of the request."""

    arrived_s: float  # Time of the request's first byte, on the monotonic clock
    amount: float  # Seconds from then until the last byte of the answer
    # Seconds of `amount` reserved for the work after the plan: encoding and sending the
    # answer
    reserve_s: float = 0.0

    @property
    def whole(self) -> float:
        """Seconds from the request's first byte until a plan must end."""
        return self.amount - self.reserve_s

    @property
    def due_s(self) -> float:
        """Time at which the last byte of the answer is due."""
        return self.arrived_s + self.amount

    def left(self, now_s: float) -> float:
        """Return how many seconds a plan may take if it starts at `now_s`."""
        return self.arrived_s + self.amount - self.reserve_s - now_s

    def keeping(self, reserve_s: float) -> "Deadline":
        """Return this deadline with `reserve_s` seconds reserved to send the answer."""
        return Deadline(self.arrived_s, self.amount, reserve_s)


class MoneyBudget(msgspec.Struct, frozen=True, gc=False):
    """A budget of money, or of another cost that does not shrink with time."""

    amount: float  # The budget in the index's unit

    @property
    def whole(self) -> float:
        """The total budget."""
        return self.amount

    @property
    def due_s(self) -> float:
        """Infinity, as money has no deadline."""
        return math.inf

    def left(self, now_s: float) -> float:
        """Return the whole amount, at any time: waiting costs no money."""
        return self.amount

    def keeping(self, reserve_s: float) -> "MoneyBudget":
        """Return this budget unchanged: sending an answer costs no money."""
        return self


# A budget in the unit of the index's costs.
Budget = Deadline | MoneyBudget


def budget_of(
    unit: str,
    amount: float | None,
    settings: Settings,
    arrived_s: float,
    reserve_s: float,
    ask: str = "'budget' how much the item",
) -> Budget:
    """Return the budget of a request that asks for `amount` in the index's `unit`.

    If `amount` is None, the budget is the operator's default. If costs are no time,
    there is no default: BadInput is raised, and its message asks for `ask`.
    """
    if unit == "s":
        allowed_s = settings.budget_s if amount is None else amount
        return Deadline(arrived_s, min(allowed_s, settings.max_budget_s), reserve_s)
    if amount is None:
        raise BadInput(f"this index counts costs in {unit}: say with {ask} may cost")
    return MoneyBudget(amount)


def read_amount(
    unit: str,
    budget_ms: float | None,
    budget: float | None,
    names: tuple[str, str] = ("budget_ms", "budget"),
) -> float | None:
    """Return the budget in the index's `unit`, "s" or a currency; None if not given.

    Raises BadInput for a negative or infinite amount, or a budget in the wrong unit.
    The error message calls the two budgets by `names`.
    """
    in_ms, in_unit = names
    if unit == "s" and budget is not None:
        raise BadInput(f"this index counts time: give {in_ms!r}, not {in_unit!r}")
    if unit != "s" and budget_ms is not None:
        raise BadInput(
            f"this index counts costs in {unit}, which time does not reduce: give "
            f"{in_unit!r} in that unit, not {in_ms!r}"
        )
    name, amount = (in_ms, budget_ms) if unit == "s" else (in_unit, budget)
    if amount is not None and not 0 <= amount < math.inf:
        raise BadInput(f"{name} is {amount}; it must be a finite number, 0 or more")
    return amount / 1e3 if amount is not None and unit == "s" else amount
