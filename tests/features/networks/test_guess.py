"""What a file alone tells of a network: the kind of its items, and a name."""

from pathlib import Path

import onnx
import pytest

from polydom.features.errors import BadFeature
from polydom.features.networks.guess import guess_kind, guess_terms, name_of
from polydom.features.networks.onnx_graph import Input
from polydom.features.networks.open_network import read_network
from tests.support.networks.small_networks import of_columns, of_images, of_texts


@pytest.mark.parametrize(
    ("kind", "inputs"),
    [
        ("image", [("x", "float32", (None, 3, 224, 224))]),
        ("image", [("x", "uint8", (1, 64, 64, 1))]),
        ("image", [("x", "float32", (None, None, None, None))]),
        ("record", [("x", "float32", (None, 8, 64, 64))]),
        ("text", [("tokens", "int32", (None, 128))]),
        ("text", [("input_ids", "int64", (1, None)), ("mask", "int64", (1, None))]),
        ("record", [("age", "int64", (None, 1)), ("width", "int64", (None, 1))]),
        ("record", [("X", "float32", (None, 4))]),
        ("record", [("input", "float32", (None, 4))]),
        ("record", [("a", "string", (None, 1)), ("b", "float32", (None, 1))]),
    ],
)
def test_kinds_follow_from_inputs(
    kind: str, inputs: list[tuple[str, str, tuple[int | None, ...]]]
) -> None:
    assert guess_kind([Input(*one) for one in inputs]) == kind


def test_names_are_made_of_files() -> None:
    assert name_of(Path("models/lite0.v2.onnx")) == "lite0.v2"
    assert name_of(Path("2020 net(1).onnx")) == "_2020_net_1_"
    assert name_of(Path("é" * 99)) == "_" * 62


def test_guessed_terms_run_a_network(tmp_path: Path) -> None:
    for kind, model in (("image", of_images(1)), ("record", of_columns(3))):
        path = tmp_path / f"{kind}.onnx"
        onnx.save(model, path)
        terms = guess_terms(path)
        assert (terms.name, terms.kind) == (kind, kind)
        assert read_network(terms).end == "scores"
    assert terms.columns == ["rows 1", "rows 2", "rows 3"]


def test_a_network_of_texts_needs_its_tokenizer(tmp_path: Path) -> None:
    onnx.save(of_texts(1), tmp_path / "net.onnx")
    needed = r"reads texts \(input_ids: int64 \(n, n\); .* --tokenizer tokenizer.json"
    with pytest.raises(BadFeature, match=needed):
        guess_terms(tmp_path / "net.onnx")
