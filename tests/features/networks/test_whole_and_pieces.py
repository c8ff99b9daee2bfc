"""The pieces of a network, one after the other, are the whole network."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from polydom.features.extract import Extractor
from polydom.features.items import record_item, sample_items
from polydom.features.networks.inputs import Colours, ImageTensor
from polydom.features.networks.open_network import open_network, read_network
from polydom.features.networks.terms import NetworkTerms, network
from tests.support.networks.drafts import Draft
from tests.support.networks.drawn_networks import WIDTH, drawn_network
from tests.support.networks.small_networks import of_images
from tests.support.oracles.networks import mean_over_places, whole

COLUMNS = [f"c{k}" for k in range(WIDTH)]
# Attributes of operators on words; "location" is also the key of a file of weights.
SPACES: dict[str, Any] = {
    "mark": 0,
    "separators": [" "],
    "pad_value": "#",
    "mincharnum": 1,
}
COUNTED: dict[str, Any] = {
    "max_gram_length": 1,
    "min_gram_length": 1,
    "max_skip_count": 0,
    "mode": "TF",
    "ngram_counts": [0],
    "ngram_indexes": [0, 1],
    "pool_strings": ["location", "win"],
}
CODED: dict[str, Any] = {
    "keys_strings": ["a", "location"],
    "values_floats": [1.0, 2.0],
    "default_float": -1.0,
}
# What half precision and quantised numbers may differ by, if they are rounded twice.
ROUNDED = 0.05


def terms_of(file: Path, outputs: list[str] | str) -> NetworkTerms:
    return network("x", file, kind="record", columns=COLUMNS, outputs=outputs)


@pytest.mark.parametrize("seed", range(25))
def test_pieces_of_drawn_graphs_give_what_the_whole_gives(
    tmp_path: Path, seed: int
) -> None:
    draw = np.random.default_rng([1, seed])
    model = drawn_network(seed, int(draw.integers(3, 16)))
    file = tmp_path / "x.onnx"
    file.write_bytes(model.SerializeToString())
    first = read_network(terms_of(file, "auto"))
    places = [place.tensor for place in first.cutter.places(first.end)]
    count = int(draw.integers(1, len(places) + 1))
    chosen = sorted(draw.choice(len(places), count, replace=False))
    outputs = [places[k] for k in chosen]
    made = open_network(terms_of(file, outputs))
    features = [made.feature(0, piece) for piece in range(len(outputs))]
    extractor = Extractor(features, [one.width for one in made.facts.pieces])
    rounds = {"DynamicQuantizeLinear", "Cast"}
    exact = rounds.isdisjoint(node.op_type for node in model.graph.node)
    for _ in range(2):
        row = draw.normal(size=WIDTH).astype(np.float32)
        item = record_item(dict(zip(COLUMNS, row.tolist(), strict=True)))
        expected = np.concatenate(whole(model, outputs, {"rows": row[None]}), axis=1)
        error = np.abs(extractor.extract(item) - expected[0]).max()
        assert error < (1e-4 if exact else ROUNDED)


@pytest.mark.parametrize(
    "form",
    [
        *({"opset": opset} for opset in (11, 13, 18, 21)),
        {"dtype": "float16"},
        {"dtype": "uint8", "last": True},
        {"size": (32, 48), "last": True},
        {"size": (24, 32), "colours": 1},
    ],
)
def test_pieces_of_images_give_what_the_whole_gives(
    tmp_path: Path, form: dict[str, Any]
) -> None:
    model = of_images(**form)
    file = tmp_path / "x.onnx"
    file.write_bytes(model.SerializeToString())
    outputs = ["block_1", "block_3", "scores"]
    sides = {} if "size" in form else {"sides": [40]}
    made = open_network(network("x", file, kind="image", outputs=outputs, **sides))
    features = [made.feature(0, piece) for piece in range(3)]
    extractor = Extractor(features, [one.width for one in made.facts.pieces])
    item = sample_items("image")[0]
    found = extractor.extract(item)
    assert made.facts.image is not None
    assert isinstance(item.payload, bytes)
    picture = Colours(max(made.facts.image.sizes[0]))(item.payload)
    (pixels,) = ImageTensor(made.facts.image, 0)(picture)
    *maps, scores = whole(model, outputs, {"pixels": pixels})
    expected = np.concatenate([*map(mean_over_places, maps), scores[0]])
    np.testing.assert_allclose(found, expected, atol=2e-3, rtol=1e-3)


def test_pieces_of_words_give_what_the_whole_gives(tmp_path: Path) -> None:
    """As exports of scikit-learn have them: one input for each column, of any word."""
    draft = Draft(np.random.default_rng(0))
    flat = draft.add("Reshape", "note", draft.constant(np.array([-1])))
    words = draft.add("Tokenizer", flat, domain="com.microsoft", **SPACES)
    counts = draft.add("TfIdfVectorizer", words, **COUNTED)
    codes = draft.add("LabelEncoder", "place", domain="ai.onnx.ml", **CODED)
    x = draft.add("Concat", counts, codes, "age", axis=1)
    draft.add("MatMul", x, draft.weight(4, 3))
    draft.nodes[-1].output[0] = "end"
    inputs = {"note": ("string", ("n", 1)), "place": ("string", ("n", 1))}
    opsets = {"": 17, "ai.onnx.ml": 2, "com.microsoft": 1}
    model = draft.model(
        inputs | {"age": ("float32", ("n", 1))},
        {"end": ("n", 3)},
        opset_imports=[helper.make_opsetid(*one) for one in opsets.items()],
    )
    file = tmp_path / "x.onnx"
    file.write_bytes(model.SerializeToString())
    outputs = [counts, "end"]
    terms = network("x", file, kind="record", outputs=outputs)
    made = open_network(terms, ["age", "note", "place"])
    features = [made.feature(0, piece) for piece in range(2)]
    extractor = Extractor(features, [one.width for one in made.facts.pieces])
    for note, place, age in (("win the location", "location", 3.0), ("", "", 1.0)):
        item = record_item({"note": note or None, "place": place or None, "age": age})
        given = {"note": [[note]], "place": [[place]]}
        arrays: dict[str, Any] = {k: np.array(v, object) for k, v in given.items()}
        arrays["age"] = np.array([[age]], np.float32)
        expected = np.concatenate(whole(model, outputs, arrays), axis=1)[0]
        np.testing.assert_allclose(extractor.extract(item), expected, rtol=1e-5)
