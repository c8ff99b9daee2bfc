"""The interface that peer_servers.py has LitServe serve; its workers import it."""

from pathlib import Path
from typing import Any

import litserve
from fastapi import Request
from peer_servers import LABELS, NAMES, PATH, lightgbm_model


class Api(litserve.LitAPI):  # type: ignore[misc]
    def __init__(self, folder: Path) -> None:
        super().__init__(api_path=PATH)
        self.folder = folder

    def setup(self, device: Any) -> None:
        self.model = lightgbm_model(self.folder)

    def decode_request(self, request: Request) -> list[float]:
        return [request["record"][name] for name in NAMES]

    def predict(self, row: list[float]) -> tuple[int, list[float]]:
        answer: tuple[int, list[float]] = self.model(row)
        return answer

    def encode_response(self, output: tuple[int, list[float]]) -> dict[str, Any]:
        code, scores = output
        return {"label": LABELS[code], "scores": dict(zip(LABELS, scores, strict=True))}
