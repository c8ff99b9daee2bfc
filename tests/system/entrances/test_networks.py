"""Pieces of networks as features x every entrance, and what the engine does with them.

Pieces are steps, so early ends, slow machines and empty columns treat them as others.
"""

import base64
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
import tritonclient.grpc as triton
from PIL import Image
from starlette.testclient import TestClient

from polydom.features.items import make_item
from polydom.indexer import Index
from polydom.server import score_items
from polydom.server.app import create_app
from polydom.server.engine.budget import Deadline
from polydom.server.engine.executions.execution import execute
from polydom.server.engine.planning.planner import Planner
from polydom.server.engine.request import Outcome, Request
from polydom.server.ops.server import free_port
from polydom.server.settings import GrpcAt
from tests.support.clock import Clock
from tests.support.indexes import with_networks
from tests.support.indexes.with_networks import ITEMS, NOTES, PICTURES, RECORDS
from tests.support.processes.commands import run
from tests.support.waiting import until_ready

BROKEN = PICTURES[0][:600]  # only the begin of a photo
JSON_LINES = {"content-type": "application/jsonl"}
GIVEN: dict[str, Any] = dict(ITEMS.items()) | {"notes": NOTES}
GIVEN["record"] = [one | {"e": 1.0} for one in RECORDS]


def index_of(name: str) -> Index:
    if name == "notes":
        return with_networks.make_notes()
    return with_networks.make_index(name, timed=name == "image")  # type: ignore


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("networks")
    for name in GIVEN:
        index_of(name).save(folder / f"{name}.pdx")
    return folder


@pytest.fixture(scope="module")
def grpc_port() -> int:
    return free_port("127.0.0.1", 0)


@pytest.fixture(scope="module")
def client(folder: Path, grpc_port: int) -> Iterator[TestClient]:
    at = GrpcAt("127.0.0.1", grpc_port)
    app = create_app({name: folder / f"{name}.pdx" for name in GIVEN}, grpc_at=at)
    with TestClient(app) as client:
        until_ready(client)
        yield client


def scores_of(name: str, folder: Path) -> list[list[float]]:
    """Scores by the best model, of features that were computed all at once."""
    package = Index.load(folder / f"{name}.pdx").package
    assert package is not None
    extractor, model = package.extractor(), package.models[-1]
    found = []
    for given in GIVEN[name]:
        row = extractor.extract(make_item(given, package.kind), features=package.used)
        found.append([*model.answer(row)[1]])
    return found


def in_json(given: Any) -> dict[str, Any]:
    if isinstance(given, bytes):
        return {"image_base64": base64.b64encode(given).decode()}
    return {"record" if isinstance(given, dict) else "text": given}


def scores_in(answers: list[dict[str, Any]]) -> list[list[float]]:
    return [[one["scores"]["no"], one["scores"]["yes"]] for one in answers]


@pytest.mark.parametrize("name", [*GIVEN])
def test_every_entrance_answers_alike(
    name: str, folder: Path, client: TestClient
) -> None:
    given, expected = GIVEN[name], scores_of(name, folder)
    alone = [
        client.post(
            "/v1/predict", json={**in_json(one), "model": name, "budget_ms": 5000}
        ).json()
        for one in given
    ]
    np.testing.assert_allclose(scores_in(alone), expected, atol=1e-6)
    assert all(len(one["features"]) == 3 for one in alone)
    address = f"/v1/batch?model={name}&budget_ms=20000"
    lines = "\n".join(json.dumps(in_json(one)) for one in given)
    batch = client.post(address, content=lines, headers=JSON_LINES).text.splitlines()
    answers = [json.loads(line) for line in batch]
    np.testing.assert_allclose(scores_in(answers[:4]), expected, atol=1e-6)
    packed = b"".join(
        msgpack.packb({"image_base64": one} if isinstance(one, bytes) else in_json(one))
        for one in given
    )
    kind = {"content-type": "application/msgpack"}
    unpacker = msgpack.Unpacker()
    unpacker.feed(client.post(address, content=packed, headers=kind).content)
    np.testing.assert_allclose(scores_in([*unpacker][:4]), expected, atol=1e-6)
    rows = score_items(folder / f"{name}.pdx", given, 60.0)
    found = scores_in([{"scores": row.scores} for row in rows])
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_grpc_answers_as_the_others(
    folder: Path, client: TestClient, grpc_port: int
) -> None:
    asked = triton.InferInput("image", [4], "BYTES")
    asked.set_data_from_numpy(np.array(PICTURES, object))
    with triton.InferenceServerClient(f"127.0.0.1:{grpc_port}") as calls:
        reply = calls.infer("image", [asked], parameters={"budget_ms": 20_000})
    expected = scores_of("image", folder)
    np.testing.assert_allclose(reply.as_numpy("scores"), expected, atol=1e-6)


def test_the_command_predicts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "one.jpg").write_bytes(PICTURES[2])
    order = [folder / "image.pdx", folder / "one.jpg", "--budget-ms", 5000, "--json"]
    code, out, err = run(capsys, "predict", *order)
    assert code == 0, err
    (answer,) = [json.loads(out)]
    expected = scores_of("image", folder)[2]
    np.testing.assert_allclose(scores_in([answer])[0], expected, atol=1e-6)


def test_a_broken_photo_spoils_no_other(folder: Path, client: TestClient) -> None:
    address, kind = "/v1/predict?model=image&budget_ms=5000", "image/jpeg"
    reply = client.post(address, content=BROKEN, headers={"content-type": kind})
    assert (reply.status_code, reply.json()["code"]) == (400, "bad_item")
    lines = "\n".join(json.dumps(in_json(one)) for one in [BROKEN, *PICTURES])
    batch = client.post(
        "/v1/batch?model=image&budget_ms=20000", content=lines, headers=JSON_LINES
    )
    first, *others = [json.loads(line) for line in batch.text.splitlines()]
    assert first["code"] == "bad_item"
    expected = scores_of("image", folder)
    np.testing.assert_allclose(scores_in(others[:4]), expected, atol=1e-6)


def test_a_large_photo_is_seen_upright() -> None:
    """It answers as the small photo of which it is made, however it is stored."""
    package = with_networks.make_index("image").package
    assert package is not None
    small = Image.new("RGB", (80, 60), (200, 40, 0))
    small.paste((0, 90, 220), (0, 0, 30, 60))
    large = small.resize((1600, 1200), Image.Resampling.NEAREST)
    exif = Image.Exif()
    exif[0x0112] = 6  # a viewer turns it to the right by a quarter
    rows = []
    for picture, own in ((large, None), (large.transpose(ROTATE_90), exif)):
        for form, terms in (("JPEG", {"quality": 95}), ("PNG", {"compress_level": 1})):
            out = io.BytesIO()
            more: dict[str, Any] = {} if own is None else {"exif": own.tobytes()}
            picture.save(out, form, **terms, **more)
            item = make_item(out.getvalue(), "image")
            rows.append(package.extractor().extract(item, features=package.used))
    np.testing.assert_allclose(rows, np.tile(rows[0], (4, 1)), atol=0.02)


ROTATE_90 = Image.Transpose.ROTATE_90


def slow_planner(index: Index, clock: Clock, step: str, seconds: float) -> Planner:
    """A planner whose step of this name moves the clock."""
    assert index.package is not None
    extractor = index.package.extractor()
    place = [one.name for one in extractor.steps].index(step)

    def slowed(*inputs: Any) -> Any:
        clock.now_s += seconds
        return extractor.steps[place].function(*inputs)

    calls = [*extractor.step_calls]
    calls[place] = calls[place]._replace(function=slowed)
    extractor.step_calls = tuple(calls)
    return Planner(index, extractor, now=clock)


def ask(planner: Planner, budget_s: float) -> Outcome:
    item = make_item(PICTURES[0], "image")
    return execute(planner, Request(item, Deadline(planner.now(), budget_s)))


def test_a_slow_piece_is_the_last_before_the_deadline() -> None:
    """Features cost 1 ms, and so do the steps; a set with all costs 8."""
    index, clock = with_networks.make_index("image"), Clock()
    planner = slow_planner(index, clock, "net_32_2 map", 20e-3)
    outcome = ask(planner, 10e-3)
    assert (outcome.row, outcome.reason) == (2, "budget")
    # the next plans reckon with a slower machine
    for _ in range(20):
        ask(planner, 10e-3)
    assert planner.drift.factor > 1.2
    assert ask(planner, 8e-3).row == 1


def test_pieces_after_an_early_end_do_not_run() -> None:
    index, clock = with_networks.make_index("image"), Clock()
    package = index.package
    assert package is not None
    margins = tuple(
        tuple(0.0 if k == 1 and len(own) > 2 else np.inf for k in range(len(own)))
        for own in package.fallbacks
    )
    early = replace(index, package=replace(package, margins=margins))
    planner = slow_planner(early, clock, "net_32_2 map", 5.0)
    outcome = ask(planner, 1.0)
    assert (outcome.row, planner.now()) == (1, clock.now_s)
    assert clock.now_s < 60.0  # nothing moved it
