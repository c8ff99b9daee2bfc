"""Requests on the reference's pages: each is asked, and answered as it says there."""

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from polydom.features.ready_made.image_header import FORMATS
from polydom.server.app import describe_routes
from polydom.server.schema.facts import IndexFacts, ModelFacts
from polydom.server.schema.wire import (
    Answer,
    BatchTerms,
    ErrorEntry,
    PredictRequest,
    Totals,
)
from tests.support.indexes.served import FEATURES_FILE, save
from tests.support.indexes.three_kinds import picture, save_three
from tests.support.pages import blocks, read, run_python
from tests.support.processes.servers import ADMIN, serving

HTTP, OIP = read("reference/http.md"), read("reference/oip.md")

NAMES = {"spam", "encoded", "text_length"}  # keys that an index gives, not the server
STRUCTURED = re.compile("HTTP/|polydom_").match


class Asked(NamedTuple):
    """A request of a page, and the answer that follows it there; None without one."""

    command: str
    answer: str | None


def requests(page: str) -> Iterator[Asked]:
    """Every call of curl on a page."""
    code = r"^```{}\n(.*?)^```\n"
    pattern = code.format("sh") + r"(?:\n" + code.format("(?:json|text)") + ")?"
    for command, answer in re.findall(pattern, read(page), re.MULTILINE | re.DOTALL):
        if command.startswith("curl"):
            yield Asked(command, answer or None)


ASKED = {
    f"{page} {number}": asked
    for page in ("http", "oip", "errors", "metrics")
    for number, asked in enumerate(requests(f"reference/{page}.md"))
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a reader has: indexes, an image, a batch and a token."""
    folder = tmp_path_factory.mktemp("reader")
    save_three(folder)
    (folder / "cat.jpg").write_bytes(picture(220))
    (folder / "items.jsonl").write_text(blocks("reference/http.md", "text")[0])
    (folder / "admins").write_text(ADMIN)
    return folder


@pytest.fixture(scope="module")
def port(folder: Path) -> Iterator[int]:
    """A server of the pages' three models."""
    models = ["photos=images.pdx", "loans=records.pdx"]
    options = ["--features", str(FEATURES_FILE), "--admin-token-file", "admins"]
    save(folder / "tiny.next.pdx", 0.9)
    options.append("--candidate=mails=tiny.next.pdx")
    with serving("mails=tiny.pdx", *models, *options, folder=folder) as (_, port):
        yield port


@pytest.mark.parametrize("name", ASKED)
def test_request_is_answered_as_the_page_says(
    name: str, folder: Path, port: int
) -> None:
    command, answer = ASKED[name]
    command = command.replace(":8000", f":{port}").replace("$ADMIN_TOKEN", ADMIN)
    command, _, _ = command.partition("| grep")
    done = subprocess.run(
        [*shlex.split(command), "--silent", "--show-error"],
        cwd=folder,
        capture_output=True,
        check=True,
    )
    said = done.stdout.decode()
    if answer is None:
        assert json.loads(said)["label"] is not None
    elif answer.startswith("{"):
        for line, shown in zip(objects(said), objects(answer), strict=True):
            compare(line, shown)
    else:
        assert said
        for line in filter(STRUCTURED, answer.splitlines()):
            assert shape(line) in map(shape, said.splitlines())


def objects(text: str) -> list[Any]:
    """One JSON object, or one a line; `...` is where some was left out."""
    text = re.sub(r'"([^"]*)\.\.\."', r'"\1"', text)
    text = re.sub(r",?\s*\.\.\.,?(?=\s*[]}])", "", text)
    text = re.sub(r",\s*\.\.\.,", ",", text)
    try:
        return [json.loads(text)]
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines() if line]


def compare(said: Any, shown: Any) -> None:
    """What is shown is in what was said: keys, and types of their values."""
    if said is None:  # of an index that does not say
        return
    if isinstance(shown, dict) and not set(shown) & NAMES:
        assert shown.keys() <= said.keys()
        for key, value in shown.items():
            compare(said[key], value)
    elif isinstance(shown, list) and shown and said:
        compare(said[0], shown[0])
    elif isinstance(shown, float):
        assert isinstance(said, float)


def shape(line: str) -> str:
    """A line without its numbers and quoted values."""
    return re.sub(r'"[^"]*"|[\d.]+', "_", line.strip())


@pytest.mark.parametrize(
    "struct",
    [PredictRequest, Answer, IndexFacts, ModelFacts, BatchTerms, ErrorEntry, Totals],
)
def test_every_field_is_described(struct: type) -> None:
    for field in struct.__struct_fields__:  # type: ignore[attr-defined]
        assert f"`{field}`" in HTTP, field


def test_every_route_and_image_format_is_named() -> None:
    for path in describe_routes()["paths"]:
        assert f"{path}`" in (OIP if path.startswith("/v2") else HTTP), path
    for name in FORMATS:
        assert name in HTTP, name


def test_every_route_of_v1_has_a_request() -> None:
    asked = " ".join(request.command for request in ASKED.values())
    for path in describe_routes()["paths"]:
        if path.startswith("/v1"):
            found = re.escape(f":8000{path}").replace(r"\{number\}", r"\d+")
            assert re.search(rf"{found}(?=[\s'?])", asked), path


def test_a_client_of_triton_is_answered(folder: Path, port: int) -> None:
    pytest.importorskip("tritonclient.http")
    (code,) = blocks("reference/oip.md", "python")
    printed = run_python(code.replace(":8000", f":{port}"), folder)
    assert re.match(r"\[b'\w+' b'\w+'\] (True|False)$", printed)
