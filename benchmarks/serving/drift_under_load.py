"""What small budgets get from a server while other programs load it, and after.

Requests come at a steady rate over HTTP, one budget after the other; a phase begins
when the programs begin or end. Who asks is on the same machine and is slowed down as
well, so that times are his and the server's together.
"""

import contextlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from polydom.features.items import Item
from tests.support.servers import serving

from .one_by_one import post
from .open_loop import Exchange, Load
from .other_programs import busy

BUDGETS_MS = (2, 5, 10)
RATES = (25.0, 200.0)
# seconds of each part, and whether other programs run meanwhile
PHASES = {
    "idle": (3.0, False),
    "busy": (6.0, True),
    "first second after": (1.0, False),
    "then": (3.0, False),
}
CONNECTIONS = 16
PROGRAMS = 2  # for each core


def measure(
    path: Path, items: Sequence[Item], labels: Sequence[str], quick: bool
) -> list[dict[str, Any]]:
    """A row for each rate, phase and budget."""
    asked = [
        (item, label, budget_ms)
        for item, label in zip(items, labels, strict=True)
        for budget_ms in BUDGETS_MS
    ]
    requests = [post(item, f"budget_ms={budget_ms}") for item, _, budget_ms in asked]
    rows = []
    with serving(path) as (_, port):
        for rate in RATES[-1:] if quick else RATES:
            for name, (seconds, loaded) in PHASES.items():
                count = 1 if quick else PROGRAMS * (os.cpu_count() or 1)
                with busy(count) if loaded else contextlib.nullcontext():
                    load = Load(port, requests, CONNECTIONS)
                    exchanges = load.open(rate, 0.1 if quick else seconds)
                for budget_ms in BUDGETS_MS:
                    some = [
                        (exchange, asked[exchange.number % len(asked)][1])
                        for exchange in exchanges
                        if asked[exchange.number % len(asked)][2] == budget_ms
                    ]
                    row = {"rate": rate, "phase": name, "budget ms": budget_ms}
                    rows.append(row | summary(some, budget_ms))
    return rows


def summary(
    some: list[tuple[Exchange, str]], budget_ms: float
) -> dict[str, float | None]:
    """Shares of the answers, by both clocks, and what they were given."""
    answers = [json.loads(e.body) if e.status == 200 else {} for e, _ in some]
    in_time = np.array([e.done_s - e.due_s <= budget_ms / 1e3 for e, _ in some])
    right = np.array(
        [a.get("label") == label for a, (_, label) in zip(answers, some, strict=True)]
    )
    reserves_us = [a["reserve_us"] for a in answers if a]
    return {
        "right in time": float((right & in_time).mean()),
        "in time": float(in_time.mean()),
        "by the server": float(np.mean([a.get("budget_met", False) for a in answers])),
        "priors": float(np.mean([a.get("features") == [] for a in answers])),
        "reserve us": float(np.median(reserves_us)) if reserves_us else None,
    }
