"""Columns of maps and of tokens: means over what belongs to the item."""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

from polydom.features.extract import Extractor
from polydom.features.items import text_item
from polydom.features.networks.facts import PieceFacts
from polydom.features.networks.open_network import open_network
from polydom.features.networks.pooled import PooledColumns, Projection
from polydom.features.networks.terms import network
from tests.support.networks.drafts import Draft, Shape
from tests.support.networks.small_networks import INPUTS, of_texts, tokenizer
from tests.support.oracles.networks import mean_over_places, whole


def pooled(
    values: np.ndarray, axes: list[int], projection: Projection | None = None
) -> np.ndarray:
    facts = PieceFacts([0], [], axes, None, 1, 1.0)
    return PooledColumns(facts, projection)(values)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("shape", [(1, 3, 5, 7), (1, 1, 1, 1), (1, 6, 2, 2)])
def test_columns_of_a_map_are_means_over_its_places(
    dtype: str, shape: tuple[int, ...]
) -> None:
    values = np.random.default_rng(0).normal(size=shape).astype(dtype)
    expected = mean_over_places(values)
    for axes, turned in (([2, 3], values), ([1, 2], np.moveaxis(values, 1, 3))):
        found = pooled(turned, axes)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-3)


def test_a_mean_of_half_numbers_is_summed_in_larger_ones() -> None:
    values = np.full((1, 1, 300, 300), 1000, np.float16)  # their sum is beyond 65,504
    assert pooled(values, [2, 3]) == pytest.approx(1000)
    assert pooled(np.moveaxis(values, 1, 3), [1, 2]) == pytest.approx(1000)


@pytest.mark.parametrize("shape", [(1, 4), (1,), (1, 2, 2)])
def test_other_outputs_are_columns_as_they_are(shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    assert pooled(values, []).tolist() == values.reshape(-1).tolist()


def test_a_projection_is_a_product_with_what_is_left_of_the_mean() -> None:
    draw = np.random.default_rng(0)
    values = draw.normal(size=(1, 5)).astype(np.float32)
    mean = draw.normal(size=5).astype(np.float32)
    components = draw.normal(size=(5, 2)).astype(np.float32)
    expected = [
        sum((values[0, k] - mean[k]) * components[k, row] for k in range(5))
        for row in range(2)
    ]
    found = pooled(values, [], Projection(mean, components))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("inputs", [INPUTS, INPUTS[:2], INPUTS[:1]])
@pytest.mark.parametrize("tokens", [None, 8])
@pytest.mark.parametrize("pool", ["mean", "first"])
def test_columns_of_a_text_are_of_its_own_tokens(
    tmp_path: Path, inputs: tuple[str, ...], tokens: int | None, pool: str
) -> None:
    """If the network takes 8 tokens only, the others are none of the text's."""
    model = of_texts(inputs=inputs, tokens=tokens)
    (tmp_path / "x.onnx").write_bytes(model.SerializeToString())
    (tmp_path / "tokenizer.json").write_bytes(tokenizer())
    own = str(tmp_path / "tokenizer.json")
    usual = {"kind": "text", "outputs": "end", "tokenizer": own}
    terms = network("x", tmp_path / "x.onnx", pool=pool, **usual)
    feature = open_network(terms).feature(0, 0)
    found = Extractor([feature], [8]).extract(text_item("win cash hello"))
    ids = [1, 4, 5, 7, 2] + [0] * (3 if tokens else 0)
    mask = [1] * 5 + [0] * (len(ids) - 5)
    given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": [0] * len(ids)}
    arrays = {name: np.array([given[name]]) for name in inputs}
    (states,) = whole(model, ["states"], arrays)
    rows = states[0, :1] if pool == "first" else states[0, :5]
    expected = [sum(column) / len(rows) for column in rows.T.tolist()]
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("elements", [TensorProto.FLOAT, TensorProto.BOOL])
def test_a_mask_may_be_of_floats_or_booleans(tmp_path: Path, elements: int) -> None:
    found = []
    (tmp_path / "tokenizer.json").write_bytes(tokenizer())
    own = str(tmp_path / "tokenizer.json")
    for kind in (TensorProto.INT64, elements):
        model = of_texts(tokens=8)
        model.graph.input[1].type.tensor_type.elem_type = kind
        (tmp_path / "x.onnx").write_bytes(model.SerializeToString())
        terms = network("x", tmp_path / "x.onnx", kind="text", tokenizer=own)
        feature = open_network(terms).feature(0, 0)
        found.append(Extractor([feature], [8]).extract(text_item("win cash hello")))
    assert np.array_equal(found[0], found[1])


@pytest.mark.parametrize("last", [False, True])
def test_maps_of_wide_images_are_averaged_over_height_and_width(
    tmp_path: Path, last: bool
) -> None:
    """The axes of places are those with the proportions of the image."""
    draft = Draft(np.random.default_rng(0))
    x = draft.add("Transpose", "pixels", perm=[0, 3, 1, 2]) if last else "pixels"
    x = draft.add("Conv", x, draft.weight(6, 3, 4, 4), strides=[4, 4])
    if last:
        x = draft.add("Transpose", x, perm=[0, 2, 3, 1])
    draft.add("Relu", x)
    draft.nodes[-1].output[0] = "end"
    shape: Shape = ["n", 24, 64, 3] if last else ["n", 3, 24, 64]
    model = draft.model({"pixels": ("float32", shape)}, {"end": ("n", 6, "h", "w")})
    (tmp_path / "x.onnx").write_bytes(model.SerializeToString())
    terms = network("x", tmp_path / "x.onnx", kind="image", outputs="end")
    made = open_network(terms)
    (piece,) = made.facts.pieces
    assert (piece.axes, piece.width) == ([1, 2] if last else [2, 3], 6)
