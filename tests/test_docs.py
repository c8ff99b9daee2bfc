"""What the documents promise is what the code has."""

import re
from pathlib import Path

import pytest

from polydom.features.errors import (
    BadFeature,
    BadInput,
    BadItem,
    NothingFits,
    PolydomError,
)
from polydom.features.picture import FORMATS
from polydom.indexer.file import DTYPES, FORMAT_VERSION, MAGIC, MAX_HEADER_BYTES
from polydom.server import errors
from polydom.server.openapi import describe_routes
from polydom.server.wire import Answer, Ask, IndexFacts, ModelFacts

DOCS = Path(__file__).resolve().parents[1] / "docs"
WIRE = (DOCS / "wire-format.md").read_text(encoding="utf-8")
FILE = (DOCS / "file-format.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("struct", [Ask, Answer, IndexFacts, ModelFacts])
def test_wire_format_describes_every_field(struct: type) -> None:
    for field in struct.__struct_fields__:  # type: ignore[attr-defined]
        assert f"`{field}`" in WIRE, field


def test_wire_format_names_every_route_and_image_format() -> None:
    for path in describe_routes()["paths"]:
        assert f"{path}`" in WIRE, path
    for name in FORMATS:
        assert name in WIRE, name


def test_wire_format_lists_every_error_code() -> None:
    listed = set(re.findall(r"`([a-z_]+)`", WIRE.split("## Errors")[1]))
    raised: list[type[PolydomError]] = [BadFeature, BadInput, BadItem, NothingFits]
    raised += [errors.Abandoned, errors.NotReady, errors.Overloaded, errors.TooLarge]
    raised += [errors.UnknownModel, errors.Unauthorized, errors.UnsupportedEncoding]
    raised += [errors.ReloadFailed]
    for error in raised:
        assert error.code in listed


def test_file_format_gives_the_constants_that_the_code_has() -> None:
    assert MAGIC.hex(" ") in FILE
    assert f"format version, uint32: {FORMAT_VERSION}" in FILE
    assert f"at most {MAX_HEADER_BYTES >> 20} MiB" in FILE
    for dtype in DTYPES:
        assert dtype in FILE
