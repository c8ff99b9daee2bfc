"""Small networks of images, texts and records, with drawn weights."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .drafts import Draft

SIDE = 32
WORDS = ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "win", "cash", "now", "hello", "you")
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def of_images(
    blocks: int = 3,
    channels: int = 4,
    size: tuple[int | None, int | None] = (None, None),
    *,
    colours: int = 3,
    classes: int = 5,
    dtype: str = "float32",
    last: bool = False,
    opset: int = 17,
    seed: int = 0,
) -> Any:
    """Return a residual network of images; its blocks' outputs are block_1, block_2 ...

    Its input is `pixels` (n, colours, height, width), or with the colours last; its
    output `scores` (n, classes). A network of bytes has the `dtype` uint8.
    """
    inside = "float32" if dtype == "uint8" else dtype
    draft = Draft(np.random.default_rng(seed), inside)
    shape = ["n", *size, colours] if last else ["n", colours, *size]
    x = "pixels"
    if last:
        x = draft.add("Transpose", x, perm=[0, 3, 1, 2])
    if dtype == "uint8":
        x = draft.add("Cast", x, to=1)
        x = draft.add("Mul", x, draft.constant(np.float32(1 / 255)))
    same: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    kernel = draft.weight(channels, colours, 3, 3)
    x = draft.add("Relu", draft.add("Conv", x, kernel, strides=[2, 2], **same))
    for block in range(blocks):
        more = draft.add("Conv", x, draft.weight(channels, channels, 3, 3), **same)
        more = draft.add("Relu", more)
        more = draft.add("Conv", more, draft.weight(channels, channels, 3, 3), **same)
        x = draft.add("Add", x, more)
        draft.nodes[-1].output[0] = x = f"block_{block + 1}"
    x = draft.add("Flatten", draft.add("GlobalAveragePool", x))
    weights = draft.weight(channels, classes), draft.weight(classes)
    draft.add("Gemm", x, *weights)
    draft.nodes[-1].output[0] = "scores"
    return draft.model({"pixels": (dtype, shape)}, {"scores": ("n", classes)}, opset)


def of_texts(
    layers: int = 2,
    width: int = 8,
    *,
    words: int = len(WORDS),
    inputs: Sequence[str] = INPUTS,
    tokens: int | None = None,
    dtype: str = "int64",
    seed: int = 0,
) -> Any:
    """Return a transformer of one head; its layers' outputs are layer_1, layer_2 ...

    Its inputs are (n, tokens) of `dtype`, its output is `states` (n, tokens, width).
    """
    draft = Draft(np.random.default_rng(seed))
    ids = inputs[0]
    x = draft.add("Gather", draft.weight(words, width), ids)
    if len(inputs) > 2:
        kinds = draft.add("Gather", draft.weight(2, width), inputs[2])
        x = draft.add("Add", x, kinds)
    hidden = None
    if len(inputs) > 1:
        mask = draft.add("Cast", inputs[1], to=1)
        mask = draft.add("Sub", draft.constant(np.float32(1)), mask)
        mask = draft.add("Mul", mask, draft.constant(np.float32(-1e4)))
        hidden = draft.add("Unsqueeze", mask, draft.constant(np.array([1])))
    for layer in range(layers):
        parts = [draft.add("MatMul", x, draft.weight(width, width)) for _ in range(3)]
        turned = draft.add("Transpose", parts[1], perm=[0, 2, 1])
        near = draft.add("MatMul", parts[0], turned)
        if hidden is not None:
            near = draft.add("Add", near, hidden)
        mixed = draft.add("MatMul", draft.add("Softmax", near, axis=-1), parts[2])
        x = draft.add("Add", x, mixed)
        scale, bias = draft.weight(width), draft.weight(width)
        x = draft.add("LayerNormalization", x, scale, bias, axis=-1)
        draft.nodes[-1].output[0] = x = f"layer_{layer + 1}"
    draft.add("Identity", x)
    draft.nodes[-1].output[0] = "states"
    shape = "n", tokens
    return draft.model(
        {name: (dtype, shape) for name in inputs}, {"states": ("n", tokens, width)}
    )


def of_columns(
    columns: int = 4, *, classes: int = 3, dtype: str = "float32", seed: int = 0
) -> Any:
    """Return a network of one input `rows` (n, columns) and the output `scores`."""
    draft = Draft(np.random.default_rng(seed))
    x = "rows" if dtype == "float32" else draft.add("Cast", "rows", to=1)
    x = draft.add("Gemm", x, draft.weight(columns, 8), draft.weight(8))
    draft.add("Relu", x)
    draft.nodes[-1].output[0] = "hidden"
    draft.add("Gemm", "hidden", draft.weight(8, classes), draft.weight(classes))
    draft.nodes[-1].output[0] = "scores"
    return draft.model({"rows": (dtype, ("n", columns))}, {"scores": ("n", classes)})


def tokenizer(words: Sequence[str] = WORDS) -> bytes:
    """Return a file of the library tokenizers that divides texts at spaces.

    The text is between [CLS] and [SEP]; an unknown word is [UNK].
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    known = {word: position for position, word in enumerate(words)}
    made = Tokenizer(models.WordLevel(known, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return str(made.to_str()).encode()
