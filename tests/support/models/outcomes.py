"""Outcomes of models that follow a schedule, and stopped early or did not."""

from typing import Any

from polydom.server.engine.request import Outcome

BOUNDS = {"ham": (0.0625, 0.25), "spam": (0.75, 0.9375)}
EARLY = {"ham": 0.1875, "spam": 0.8125}
WHOLE = {"ham": 0.125, "spam": 0.875}


def outcome_of(used: int | None = 12, **changed: Any) -> Outcome:
    """What came of a plan whose model stopped after so many of 300 base models.

    None follows no schedule.
    """
    early = used is not None and used < 300
    facts: dict[str, Any] = {
        "label": "spam",
        "scores": EARLY if early else WHOLE,
        "row": 3,
        "predicted": 0.25,
        "started_s": 10.0,
        "finished_s": 10.125,
        "reason": "sure" if early else None,
        "quality": 0.95,
        "accuracy": 0.95,
        "charged": 0.25,
        "score_bounds": BOUNDS if early else None,
        "base_models_used": used,
        "base_models": None if used is None else 300,
        "early": early or changed.get("reason") == "sure",
    }
    return Outcome(**{**facts, **changed})
