"""What a user writes of a network: mistakes are sentences, before a file is read."""

from typing import Any

import pytest

from polydom.features.errors import BadProject
from polydom.features.networks.terms import network

IMAGE: dict[str, Any] = {"kind": "image"}
TEXT: dict[str, Any] = {"kind": "text", "tokenizer": "tokenizer.json"}
RECORD: dict[str, Any] = {"kind": "record"}


@pytest.mark.parametrize(
    ("file", "terms", "said"),
    [
        ("http://a.org/x.onnx", IMAGE, "begins with https://"),
        ("https://a.org/x.onnx", IMAGE, "names an address and no sha256"),
        ("x.onnx", IMAGE | {"sha256": "12"}, "sha256"),
        ("x.onnx", TEXT | {"tokenizer": "https://a.org/t.json"}, "a path is needed"),
        ("x.onnx", {"kind": "text"}, "no tokenizer is named"),
        ("x.onnx", IMAGE | {"tokens": [32]}, "tokens, which is for texts"),
        ("x.onnx", TEXT | {"sides": [128]}, "sides, which is for images"),
        ("x.onnx", RECORD | {"scale": 1.0}, "scale, which is for images"),
        ("x.onnx", IMAGE | {"columns": ["a"]}, "images have none"),
        ("x.onnx", IMAGE | {"mean": [0.5, 0.5]}, "three numbers are needed"),
        ("x.onnx", IMAGE | {"mean": [float("nan")]}, "three numbers are needed"),
        ("x.onnx", IMAGE | {"std": [0.0]}, "std"),
        ("x.onnx", IMAGE | {"sides": [128, 128]}, "one comes twice"),
        ("x.onnx", IMAGE | {"sides": [8]}, "sides"),
        ("x.onnx", RECORD | {"columns": ["a", "a"]}, "one comes twice"),
        ("x.onnx", IMAGE | {"outputs": []}, "has no outputs"),
        ("x.onnx", IMAGE | {"outputs": ["a", "a"]}, "one comes twice"),
        ("x.onnx", IMAGE | {"outputs": ["a"], "names": ["b", "c"]}, "2 names for 1"),
        ("x.onnx", IMAGE | {"providers": []}, "providers"),
        ("x.onnx", IMAGE | {"side": [128]}, "side"),
    ],
)
def test_a_mistake_in_what_is_written_is_a_sentence(
    file: str, terms: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadProject, match="'mine'") as caught:
        network("mine", file, **terms)
    assert said in str(caught.value)


def test_paths_begin_in_the_working_folder_and_addresses_stay() -> None:
    assert network("mine", "x.onnx", **IMAGE).file.endswith("/x.onnx")
    address = "https://a.org/x.onnx"
    assert network("mine", address, sha256="a" * 64, **IMAGE).file == address
