"""The service that peer_servers.py has BentoML serve."""

import os
from pathlib import Path
from typing import Any

import bentoml
from peer_servers import LABELS, NAMES, PATH, lightgbm_model


@bentoml.service(workers=1)
class Records:
    def __init__(self) -> None:
        self.model = lightgbm_model(Path(os.environ["POLYDOM_RECORDS"]))

    @bentoml.api(route=PATH)  # type: ignore[untyped-decorator]
    def predict(
        self, record: dict[str, float], budget_ms: float = 50
    ) -> dict[str, Any]:
        code, scores = self.model([record[name] for name in NAMES])
        return {"label": LABELS[code], "scores": dict(zip(LABELS, scores, strict=True))}
