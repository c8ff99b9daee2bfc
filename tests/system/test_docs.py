"""What the documents promise is what the code has."""

import doctest
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from polydom.features.errors import (
    BadFeature,
    BadInput,
    BadItem,
    NothingFits,
    PolydomError,
)
from polydom.features.ready_made.picture import FORMATS
from polydom.indexer.index.pdx_file import (
    DTYPES,
    FORMAT_VERSION,
    MAGIC,
    MAX_CONTAINERS,
    MAX_ENTRIES,
    MAX_FILE_BYTES,
    MAX_HEADER_BYTES,
)
from polydom.server import errors
from polydom.server.__main__ import main
from polydom.server.app import describe_routes
from polydom.server.evaluation import facts
from polydom.server.http.bearer_tokens import OPEN_PATHS
from polydom.server.http.protocol import HttpProtocol
from polydom.server.offline_scoring.parts import LEAST, LEAST_PARTS, MOST
from polydom.server.offline_scoring.scored import OF_PLAN, Scored
from polydom.server.offline_scoring.spending import AIM
from polydom.server.schema.batch import BatchTerms, ErrorEntry, Totals
from polydom.server.schema.facts import IndexFacts, ModelFacts
from polydom.server.schema.predict import Answer, PredictRequest
from polydom.server.settings import DRAIN_S, KEEP_ALIVE_S, Settings
from tests.support.exposed_metrics import exposed_labels
from tests.support.places import DOCS, ROOT

WIRE = (DOCS / "reference/http.md").read_text(encoding="utf-8")
FILE = (DOCS / "reference/file.md").read_text(encoding="utf-8")
OIP = (DOCS / "reference/oip.md").read_text(encoding="utf-8")
ENSEMBLES = (DOCS / "how-to/early-exits.md").read_text(encoding="utf-8")
RUNNING = (DOCS / "reference/server.md").read_text(encoding="utf-8")
EVALUATING = (DOCS / "how-to/evaluate.md").read_text(encoding="utf-8")
BATCHES = (DOCS / "how-to/batch.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "struct",
    [PredictRequest, Answer, IndexFacts, ModelFacts, BatchTerms, ErrorEntry, Totals],
)
def test_wire_format_describes_every_field(struct: type) -> None:
    for field in struct.__struct_fields__:  # type: ignore[attr-defined]
        assert f"`{field}`" in WIRE, field


def test_wire_format_names_every_route_and_image_format() -> None:
    for path in describe_routes()["paths"]:
        assert f"{path}`" in (OIP if path.startswith("/v2") else WIRE), path
    for name in FORMATS:
        assert name in WIRE, name


def test_wire_format_lists_every_error_code() -> None:
    listed = set(re.findall(r"`([a-z_]+)`", WIRE.split("## Errors")[1]))
    raised: list[type[PolydomError]] = [BadFeature, BadInput, BadItem, NothingFits]
    raised += [errors.Abandoned, errors.NotReady, errors.Overloaded, errors.TooLarge]
    raised += [errors.UnknownModel, errors.Unauthorized, errors.UnsupportedEncoding]
    raised += [errors.ReloadFailed, errors.UnknownSample]
    for error in raised:
        assert error.code in listed


@pytest.mark.jit
def test_code_about_ensembles_runs_from_top_to_bottom(tmp_path: Path) -> None:
    pytest.importorskip("lightgbm")
    blocks = re.findall(r"^```python\n(.*?)^```", ENSEMBLES, re.MULTILINE | re.DOTALL)
    code = "".join(blocks)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"^\d+ of 200 trees$", done.stdout, re.MULTILINE)
    assert "of decisions change on fresh rows, with 95% confidence" in done.stdout


EXAMPLES = [
    ".".join(("polydom", *path.relative_to(ROOT).with_suffix("").parts))
    for room in ("features", "models", "indexer", "server")
    for path in sorted((ROOT / room).rglob("*.py"))
    if ">>> " in path.read_text("utf-8")
]


@pytest.mark.parametrize("module", EXAMPLES)
def test_examples_in_docstrings_hold(module: str) -> None:
    found = doctest.testmod(importlib.import_module(module))
    assert found.failed == 0
    assert found.attempted > 0


def test_file_format_gives_the_constants_that_the_code_has() -> None:
    assert MAGIC.hex(" ") in FILE
    assert f"format version, uint32: {FORMAT_VERSION}" in FILE
    assert f"at most {MAX_HEADER_BYTES >> 20} MiB" in FILE
    assert f"at most {MAX_FILE_BYTES >> 30} GiB" in FILE
    assert f"over {MAX_CONTAINERS:,} lists and maps or {MAX_ENTRIES:,} entries" in FILE
    for dtype in DTYPES:
        assert dtype in FILE


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Labels of every sample that a server shows, by the sample's name."""
    return exposed_labels(tmp_path_factory.mktemp("index"))


def test_dashboard_asks_for_metrics_and_labels_that_there_are(
    exposed: dict[str, set[str]],
) -> None:
    board = json.loads((ROOT / "deploy/grafana.json").read_text(encoding="utf-8"))
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    asked.append(board["templating"]["list"][1]["query"])
    assert len(asked) > 20
    for expression in asked:
        names = re.findall(r"polydom_[a-z_]+", expression)
        labels = {label for name in names for label in exposed[name]}
        used = re.findall(r"([a-z_]+)(?:=~?\")", expression)
        for group in re.findall(r"by \(([^)]*)\)", expression):
            used += group.split(", ")
        assert names
        assert set(used) <= labels, expression


def test_running_lists_every_metric_with_its_labels(
    exposed: dict[str, set[str]],
) -> None:
    rows = re.findall(r"^\| `(polydom_[a-z_]+)` \| (.*?) \|", RUNNING, re.MULTILINE)
    listed = {name: set(re.findall(r"`([a-z_]+)`", labels)) for name, labels in rows}
    parts = ("_bucket", "_count", "_sum")
    shown = {
        name.removesuffix(next((p for p in parts if name.endswith(p)), ""))
        for name in exposed
        if not name.endswith("_created")
    }
    assert listed.keys() == shown
    for name in shown & exposed.keys():
        assert exposed[name] - {"model"} <= listed[name], name


def test_running_names_options_that_there_are_and_the_limits(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["serve", "--help"]) == 0
    described = capsys.readouterr().out
    for option in set(re.findall(r"`(--[a-z-]+)", RUNNING)):
        assert option in described, option
    settings, protocol = Settings(), HttpProtocol
    for limit in (
        f"{settings.budget_s * 1e3:g} ms",
        f"{settings.max_budget_s * 1e3:,g} ms",
        f"{settings.body_limit >> 20} MiB",
        f"{settings.queue_limit:,} |",
        f"{protocol.receive_s:g} s |",
        f"{protocol.head_limit >> 10} KiB",
        f"{protocol.connection_limit:,} |",
        f"{KEEP_ALIVE_S} s |",
        f"{DRAIN_S} s |",
    ):
        assert limit in RUNNING, limit
    for path in OPEN_PATHS:
        assert f"`{path}`" in RUNNING


def test_evaluating_names_options_that_there_are_and_every_field(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["evaluate", "--help"]) == 0
    described = capsys.readouterr().out
    for option in set(re.findall(r"--[a-z][a-z-]+", EVALUATING)):
        assert option in described, option
    structs = (facts.Evaluation, facts.AtBudget, facts.Beside, facts.Confusion)
    for struct in (*structs, facts.Bought, facts.Pair):
        for field in struct.__struct_fields__:
            assert f"`{field}`" in EVALUATING, field


def test_batches_names_options_that_there_are_every_column_and_the_limits(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["score", "--help"]) == 0
    described = capsys.readouterr().out
    of_dask = {"--nthreads"}
    for option in set(re.findall(r"--[a-z][a-z-]+", BATCHES)) - of_dask:
        assert option in described, option
    for column in (*Scored.__struct_fields__, *OF_PLAN):
        assert f"`{column}`" in BATCHES, column
    for limit in (f"{LEAST_PARTS} parts", f"{LEAST} items", f"{MOST:,}", f"{AIM:.1%}"):
        assert limit.replace("%", " %") in BATCHES, limit
