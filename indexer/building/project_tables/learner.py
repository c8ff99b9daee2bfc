"""`[learner]`: the learner's name, and the estimator's parameters."""

import math
from collections.abc import Mapping
from typing import Any

from polydom.features.errors import BadProject

AUTO = "auto"  # name of a learner that stands for a race


def check_learner(learner: Mapping[str, Any]) -> None:
    """Raise BadProject unless a learner is named and its limits are seconds."""
    name = learner.get("name")
    if not isinstance(name, str):
        raise BadProject("[learner] needs a name, such as name = 'logistic'")
    if name == AUTO and set(learner) - {"name", "limit_s", "tune_s"}:
        raise BadProject("[learner] name = 'auto' takes no keys but limit_s and tune_s")
    for key in ("tune_s", "limit_s") if name == AUTO else ("tune_s",):
        value = learner.get(key, 1)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (number and 0 < value < math.inf):
            raise BadProject(
                f"[learner] {key} is {value!r}; it must be seconds above 0"
            )
