"""Slow twins of the containers of a file."""

from typing import Any


def count_entries(plain: Any) -> tuple[int, int]:
    """How many values, keys included, and how many lists and maps plain data have."""
    if isinstance(plain, dict):
        held = [*plain.keys(), *plain.values()]
    elif isinstance(plain, list):
        held = plain
    else:
        return 1, 0
    counts = [count_entries(one) for one in held]
    return 1 + sum(n for n, _ in counts), 1 + sum(n for _, n in counts)
