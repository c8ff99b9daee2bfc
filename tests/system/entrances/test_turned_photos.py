"""Photos that are stored turned x every entrance: builds, commands, HTTP, batches."""

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from polydom.indexer import build
from polydom.server.app import create_app
from tests.support.processes.commands import run
from tests.support.waiting import until_ready

PROJECT = """\
seed = 1
workers = 1

[learner]
name = "lda"

[data]
images = "photos"

[features]
use = ["dimensions", "projections"]

[costs]
items = 12
repeats = 2
"""
CLASSES = ("bottom", "left", "right", "top")
# Pillow's way back: what it does to an image, EXIF's number tells to undo.
BACK = {
    1: None,
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


def photo(bright: str, seed: int, way: int, format: str = "JPEG") -> bytes:
    """An image that is brighter at one side, stored in one of eight ways."""
    pixels = np.random.default_rng(seed).integers(0, 120, (48, 64), dtype=np.uint8)
    half = {"top": np.s_[:24], "bottom": np.s_[24:]} | {
        "left": np.s_[:, :32],
        "right": np.s_[:, 32:],
    }
    pixels[half[bright]] += 100
    picture = Image.fromarray(pixels)
    if (back := BACK[way]) is not None:
        picture = picture.transpose(back)
    exif, file = Image.Exif(), io.BytesIO()
    exif[0x0112] = way
    picture.save(file, format, exif=exif.tobytes())
    return file.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of photos stored in all ways, and others of them."""
    folder = tmp_path_factory.mktemp("turned")
    for number in range(128):
        bright, way = CLASSES[number % 4], number // 4 % 8 + 1
        where = folder / ("photos" if number < 96 else "others") / bright
        where.mkdir(parents=True, exist_ok=True)
        (where / f"{number}.jpg").write_bytes(photo(bright, number, way))
    (folder / "PROJECT.toml").write_text(PROJECT)
    build(folder / "PROJECT.toml", output=folder / "my.pdx")
    return folder


def test_they_are_learned_and_judged_as_they_are_seen(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [folder / "my.pdx", folder / "others", "--budgets", "1000", "--json"]
    code, out, err = run(capsys, "evaluate", *arguments)
    assert code == 0, err
    assert json.loads(out)["budgets"][0]["accuracy"] == 1.0


def test_they_are_scored_as_they_are_seen(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.jsonl"
    arguments = [folder / "my.pdx", folder / "others", "-b", "60s", "-o", out]
    code, _, err = run(capsys, "score", *arguments)
    assert code == 0, err
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(lines) == 32
    assert all(line["label"] == line["item"].split("/")[0] for line in lines)


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP"])
def test_a_server_sees_them_as_people_do(folder: Path, format: str) -> None:
    sent = [(one, photo(one, 7, way, format)) for one in CLASSES for way in BACK]
    labels = [one for one, _ in sent]
    texts = [base64.b64encode(data).decode() for _, data in sent]
    with TestClient(create_app([folder / "my.pdx"])) as client:
        until_ready(client)
        headers = {"content-type": f"image/{format.lower()}"}
        path = "/v1/predict?budget_ms=1000"
        answers = [
            client.post(path, content=data, headers=headers).json()["label"]
            for _, data in sent
        ]
        assert answers == labels
        lines = "\n".join(json.dumps({"image_base64": text}) for text in texts)
        batch = client.post(
            "/v1/batch?budget_ms=10000",
            content=lines,
            headers={"content-type": "application/jsonl"},
        )
        found = [json.loads(line) for line in batch.text.splitlines()]
        assert [line["label"] for line in found if "label" in line] == labels
        tensor: dict[str, Any] = {"name": "image", "shape": [32], "datatype": "BYTES"}
        asked = {
            "inputs": [{**tensor, "data": texts}],
            "parameters": {"budget_ms": 10_000},
        }
        reply = client.post("/v2/models/my/infer", json=asked).json()
        (output,) = [one for one in reply["outputs"] if one["name"] == "label"]
        assert output["data"] == labels
