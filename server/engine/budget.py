"""What one request may spend, and how much of it is left."""

import math

import msgspec

from polydom.features.errors import BadInput


class Deadline(msgspec.Struct, frozen=True, gc=False):
    """Time, which runs from the first byte of the request whatever is done with it.

    Attributes
    ----------
    arrived_s
        Monotonic clock at the request's first byte.
    amount
        Seconds from then until the last byte of the answer.
    reserve_s
        Seconds of `amount` kept for what follows the plan: encoding and sending.
    """

    arrived_s: float
    amount: float
    reserve_s: float = 0.0

    @property
    def whole(self) -> float:
        """Seconds that a plan might take from the first byte on."""
        return self.amount - self.reserve_s

    @property
    def due_s(self) -> float:
        """When the last byte of the answer is due."""
        return self.arrived_s + self.amount

    def left(self, now_s: float) -> float:
        """Seconds that a plan started at `now_s` may take."""
        return self.arrived_s + self.amount - self.reserve_s - now_s

    def keeping(self, reserve_s: float) -> "Deadline":
        """Return the same deadline with another reserve."""
        return Deadline(self.arrived_s, self.amount, reserve_s)


class Allowance(msgspec.Struct, frozen=True, gc=False):
    """Money, or whatever else an index counts: time does not reduce it."""

    amount: float

    @property
    def whole(self) -> float:
        """All of it."""
        return self.amount

    @property
    def due_s(self) -> float:
        """Infinity: it never is."""
        return math.inf

    def left(self, now_s: float) -> float:
        """Return all of it, at any time."""
        return self.amount

    def keeping(self, reserve_s: float) -> "Allowance":
        """Return this; no time is kept of it."""
        return self


# An amount in the unit of the index's costs, and how it runs out.
Budget = Deadline | Allowance


def read_amount(
    unit: str,
    budget_ms: float | None,
    budget: float | None,
    names: tuple[str, str] = ("budget_ms", "budget"),
) -> float | None:
    """Amount asked for in an index's own unit, "s" or a currency; None where none was.

    `names` are those by which both were given.

    Raises
    ------
    BadInput
        If the amount is negative or not finite, or given in the wrong way.
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
