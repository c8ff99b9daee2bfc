"""Pages of how-to, carried out: commands and code, on one small index of digits."""

import io
import os
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import onnx
import pytest
from PIL import Image
from starlette.testclient import TestClient

from polydom.features.extract import Extractor
from polydom.features.items import make_item
from polydom.features.networks.open_network import open_network
from polydom.features.networks.terms import network
from polydom.server.__main__ import main
from polydom.server.evaluation import results
from polydom.server.offline_scoring.folder_budget import AIM
from polydom.server.offline_scoring.output_row import OF_PLAN, Scored
from polydom.server.offline_scoring.parts import LEAST, LEAST_PARTS, MOST
from tests.support import documents
from tests.support.networks.small_networks import of_images
from tests.support.pages import blocks, read, run_python
from tests.support.places import DOCS
from tests.support.processes.commands import run
from tests.support.processes.servers import ADMIN, serving
from tests.support.waiting import until_ready

PROJECT = """
workers = 1
exits = "off"

[data]
images = "training"

[features]
use = ["thumbnail", "intensity_histogram"]

[learner]
name = "naive_bayes"

[costs]
items = 12
repeats = 2

[search]
budget_s = 0.3
"""
NAMES = ("thumbnail", "intensity_histogram", "hog", "dct")
EVERY, HELD_OUT, EDGES = 11, 12, {"photo.png": 128, "big.png": 2048}

# What needs root, a cluster, an engine, a certificate, or data of the reader's own.
ELSEWHERE = re.compile(
    r"^(sudo|systemctl|podman|docker|helm|kubectl|dask|pip|openssl|chmod|uvicorn|cp|mv|"
    r"kill|polydom serve|polydom build|polydom measure PROJECT.toml)\b"
    r"|--data PROJECT.toml|https://|/mnt/|baseline\.py|mails|quiet\.pdx|\"record\""
    r"|--simulate-fetches"
)
WITH_TESTS = (
    "early-exits.md",
    "fetch.md",
    "fetch-vectors.md",
    "follow-a-request.md",
    "log-requests.md",
    "roll-out.md",
    "triton-and-kserve.md",
)
PAGES = sorted(
    str(page.relative_to(DOCS))
    for page in (DOCS / "how-to").glob("*.md")
    if page.name not in WITH_TESTS
)


class Served(NamedTuple):
    """What a reader has: a folder with an index and items, and a server of it."""

    folder: Path
    port: int
    grpc_port: int


class Reader(documents.Reader):
    """Runs what can be run here: commands of polydom in this process.

    What a command would have shown that was left out is not looked for.
    """

    capsys: pytest.CaptureFixture[str]

    def _run(self, command: str) -> str:
        if ELSEWHERE.search(command):
            return ""
        if not command.startswith("polydom ") or set(command) & set("|>$"):
            return super()._run(command)
        self.ran.append(command)
        arguments = shlex.split(command, comments=True)[1:]
        code, out, said = run(self.capsys, *arguments)
        assert code == 0, f"{command}\n{said}"
        return out + said

    def _compare(self, block: documents.Block) -> None:
        if self._printed:
            super()._compare(block)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("how-to")
    digits = runpy.run_path(str(DOCS / "demo/digits.py"))
    for number, (image, label, _) in enumerate(
        islice(digits["load"](), 0, None, EVERY)
    ):
        name = Path(str(label)) / f"{number}.png"
        if number < HELD_OUT:
            save(folder / "held-out" / name, image)
            save(folder / "photos" / name.name, image)
        else:
            save(folder / "training" / name, image)
    scan = digits["load_digits"]().images[3] * 15
    for file, edge in EDGES.items():
        save(folder / file, digits["enlarge"](scan.astype("uint8"), edge))
    (folder / "PROJECT.toml").write_text(PROJECT)
    (folder / "admin-tokens").write_text(ADMIN)
    before = Path.cwd()
    os.chdir(folder)
    try:
        assert main(["build", "PROJECT.toml", "-o", "my.pdx"]) == 0
        options = ["other=my.pdx", "--grpc-port=0", "--admin-token-file=admin-tokens"]
        with serving("my.pdx", *options, folder=folder) as (process, port):
            assert process.stdout is not None
            grpc_port = int(process.stdout.readline().rpartition(":")[2])
            yield Served(folder, port, grpc_port)
    finally:
        os.chdir(before)


def save(path: Path, image: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(image)


def here(page: str, served: Served) -> str:
    """A page that asks this server."""
    text = read(page).replace(":8000", f":{served.port}")
    return text.replace(":8001", f":{served.grpc_port}")


@pytest.mark.parametrize("page", PAGES)
def test_commands_run_and_show_what_the_page_says(
    page: str, served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    # so much of a load as takes no time
    changes = {"20, 2\n": "1000, 0.1\n"} if "size-a" in page else {}
    reader = Reader(served.folder, NAMES, changes)
    reader.capsys = capsys
    with reader:
        reader.follow(here(page, served))
    known = documents.commands(read(page))
    assert len(reader.ran) == sum(not ELSEWHERE.search(line) for line in known)


@pytest.mark.parametrize("client", ["tritonclient", "kserve"])
def test_clients_are_answered_as_the_page_says(client: str, served: Served) -> None:
    """Of one kind in a process: messages of both have the same names there."""
    if find_spec(client) is None:
        pytest.skip(f"{client} is not here")
    codes = documents.blocks(here("how-to/triton-and-kserve.md", served))
    asking = [code for language, code in codes if language == "python"]
    of_client = [code for code in asking if f" {client}" in code]
    assert len(of_client) == 2
    printed = run_python("".join(of_client), served.folder)
    assert len(re.findall(r"^\[b?'\d'\]", printed, re.MULTILINE)) == 2


def test_many_items_are_answered_by_code_of_the_page(served: Served) -> None:
    asks, plans, _ = blocks("how-to/batch.md", "python")
    code = asks.replace(":8000", f":{served.port}") + plans
    printed = run_python(code, served.folder)
    assert printed.count("Entry(") == HELD_OUT
    assert "Totals(" in printed


def test_application_of_ones_own_answers(served: Served) -> None:
    (code,) = blocks("how-to/own-application.md", "python")
    (served.folder / "application.py").write_text(code)
    sys.path.insert(0, str(served.folder))
    try:
        app = runpy.run_path("application.py")["app"]
    finally:
        sys.path.remove(str(served.folder))
    with TestClient(app) as client:
        until_ready(client, "/ml/readyz")
        image = (served.folder / "photo.png").read_bytes()
        headers = {"Content-Type": "image/png"}
        answer = client.post("/ml/v1/predict", content=image, headers=headers)
    assert answer.json()["features"]


def test_a_classifier_ends_in_probabilities_by_code_of_the_page(
    tmp_path: Path,
) -> None:
    onnx.save(of_images(classes=3), tmp_path / "logits.onnx")
    run_python(blocks("how-to/existing-classifier.md", "python")[-1], tmp_path)
    file = tmp_path / "classifier.onnx"
    terms = network("x", file, kind="image", sides=[16], outputs="end")
    probabilities = Extractor([open_network(terms).feature(0, 0)], [3])
    photo = io.BytesIO()
    Image.linear_gradient("L").save(photo, "png")
    found = probabilities.extract(make_item(photo.getvalue()))
    assert found.sum() == pytest.approx(1, abs=1e-6)


@pytest.mark.jit
def test_code_about_ensembles_runs_from_top_to_bottom(tmp_path: Path) -> None:
    pytest.importorskip("lightgbm")
    code = "".join(blocks("how-to/early-exits.md", "python"))
    printed = documents.loosened(run_python(code, tmp_path), ())
    for shown in blocks("how-to/early-exits.md", "text"):
        first = documents.loosened(shown.splitlines()[0], ()).partition("[")[0]
        assert first.strip() in printed, shown


def test_every_alarm_has_a_section() -> None:
    page = read("how-to/monitor.md")
    alarms = re.findall(r"- alert: (\w+)", page)
    assert len(alarms) > 8
    for alarm in alarms:
        assert f"*{alarm}*:" in page, alarm


def test_evaluating_names_every_field() -> None:
    page = read("how-to/evaluate.md")
    structs = (results.Evaluation, results.BudgetResult, results.BaselineResult)
    parts = (results.Confusion, results.Bought, results.Pair, results.FetchResult)
    for struct in (*structs, *parts):
        for field in struct.__struct_fields__:
            assert f"`{field}`" in page, field


def test_batches_name_every_column_and_the_limits() -> None:
    page = read("how-to/batch.md")
    for column in (*Scored.__struct_fields__, *OF_PLAN):
        assert f"`{column}`" in page, column
    for limit in (f"{LEAST_PARTS} parts", f"{LEAST} items", f"{MOST:,}", f"{AIM:.1%}"):
        assert limit.replace("%", " %") in page, limit
