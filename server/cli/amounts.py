"""What a batch may cost, as it is typed."""

import re

from polydom.features.errors import BadInput

SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def read_amount(option: str, text: str, unit: str) -> float:
    """Read `60s`, or a bare number in a unit that is no time; BadInput otherwise."""
    found = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)(ms|s|m|h)?", text.strip())
    if found is None or (found[2] is not None) != (unit == "s"):
        wanted = "such as 500ms, 60s, 5m or 2h" if unit == "s" else f"in {unit}"
        raise BadInput(f"{option} {text}: a number {wanted} is needed")
    return float(found[1]) * SECONDS.get(found[2] or "", 1.0)


def read_total(unit: str, total_budget: str | None, total_cpu: str | None) -> float:
    """Read what parts may spend: processors' time, or an amount of another unit.

    Raises
    ------
    BadInput
        If it is not given in the index's unit.
    """
    if unit != "s":
        if total_cpu is not None or total_budget is None:
            raise BadInput(f"this index counts costs in {unit}: give --total-budget")
        return read_amount("--total-budget", total_budget, unit)
    if total_budget is not None or total_cpu is None:
        raise BadInput(
            "say with --total-cpu what parts may take of processors together; the "
            "clock's time is no budget where workers come and go"
        )
    return read_amount("--total-cpu", total_cpu, unit)
