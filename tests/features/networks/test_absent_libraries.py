"""Without a library of the extra `onnx`, a sentence says what to install."""

import re
import sys
from pathlib import Path

import onnx
import pytest

from polydom.features.errors import BadFeature
from polydom.features.networks.guess import guess_terms
from polydom.features.networks.open_network import check_file, open_network
from polydom.indexer.index.stored_features import load_extractor
from tests.support.networks.small_networks import of_texts, tokenizer


@pytest.mark.parametrize("absent", ["onnx", "onnxruntime", "tokenizers"])
def test_an_absent_library_is_named_at_a_build_and_at_load(
    absent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnx.save(of_texts(1), tmp_path / "net.onnx")
    (tmp_path / "tokenizer.json").write_bytes(tokenizer())
    terms = guess_terms(tmp_path / "net.onnx", None, tmp_path / "tokenizer.json")
    network = open_network(terms)
    monkeypatch.setitem(sys.modules, absent, None)
    said = f"need the library {absent}; pip install 'polydom[onnx]' installs it"
    with pytest.raises(BadFeature, match=re.escape(said)):
        check_file(terms)
    if absent == "onnx":  # a server needs none
        network.refuse_absent()
        return
    with pytest.raises(BadFeature, match=re.escape(said)):
        load_extractor([], networks=[network])
