"""What fetches brought, and what they cost, on average over many answers."""

from collections.abc import Sequence

import numpy as np

from ..schema.wire import Answer, Fetched
from .results import BudgetResult, FetchResult


def report_fetches(result: BudgetResult, answers: Sequence[Answer]) -> None:
    """Set the fields about fetches, if some answers say what was fetched."""
    told = [one.fetched for one in answers if isinstance(one.fetched, dict)]
    if not told:
        return
    count = len(answers)
    result.fetches = [
        FetchResult(
            name,
            sum(_is_sent(one[name]) for one in told) / count,
            sum(one[name].state in ("came", "kept") for one in told) / count,
        )
        for name in told[0]
    ]
    prices = [one.price for one in answers if isinstance(one.price, float)]
    waits_us = [one.fetch_us for one in answers if isinstance(one.fetch_us, float)]
    result.mean_price = float(np.sum(prices)) / count
    result.mean_wait_ms = float(np.sum(waits_us)) / count / 1e3


def _is_sent(fetched: Fetched) -> bool:
    return fetched.state in ("came", "late", "failed")
