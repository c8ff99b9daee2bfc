"""Recorded times of models in a build, in place of those that this machine takes."""

from typing import Any

import pytest

from polydom.indexer.building.costs import measure_costs

# A whole model, and the same model with its schedule: mean, and a high quantile
WHOLE_S, MEAN_S, HIGH_S = 3e-5, 8e-6, 2e-5


def use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all models of builds take these times, until the test ends.

    Exits are kept only for a gain, so a busy machine would decide otherwise.
    """

    def whole(*model: Any) -> float:
        return WHOLE_S

    def compared(*models: Any, name: str) -> tuple[float, float, float]:
        return WHOLE_S, MEAN_S, HIGH_S

    monkeypatch.setattr(measure_costs, "time_answer", whole)
    monkeypatch.setattr(measure_costs.Measurer, "compare_answers", compared)
