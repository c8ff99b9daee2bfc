"""Terms of a network of which only its file is known."""

import re
from collections.abc import Sequence
from pathlib import Path

from ..errors import BadFeature
from ..items import Kind
from .described_inputs import TEXT_NAMES
from .onnx_graph import Input, read_graph
from .terms import NetworkTerms

IDS = ("int64", "int32")


def guess_terms(
    file: Path, kind: Kind | None = None, tokenizer: Path | None = None
) -> NetworkTerms:
    """Return terms with which `read_network` can run the network of a file.

    The name is the file's. If `kind` is None, the kind follows from the inputs. The
    columns of a record are named after the input, such as `input 1`. Raises BadFeature
    if the file is no ONNX file, or reads texts and there is no tokenizer.
    """
    name = name_of(file)
    inputs = read_graph(file, f"network {name!r}").inputs
    kind = kind or guess_kind(inputs)
    if kind == "text" and tokenizer is None:
        raise BadFeature(
            f"{file} reads texts ({'; '.join(one.described for one in inputs)}), and "
            "no tokenizer came; --tokenizer tokenizer.json names the file that was "
            "published with the network"
        )
    return NetworkTerms(
        name,
        str(file),
        kind,
        tokenizer=str(tokenizer) if kind == "text" else None,
        columns=_columns(inputs) if kind == "record" else [],
    )


def guess_kind(inputs: Sequence[Input]) -> Kind:
    """Return the kind of items for which a network with these inputs is.

    An input of four axes, one of them of 1 or 3 channels, is an image. Whole numbers
    with the names that networks of texts have, or a single input of several whole
    numbers, are the tokens of a text. All others are a record.
    """
    first = inputs[0].shape
    if len(inputs) == 1 and len(first) == 4 and {first[1], first[3]} & {1, 3, None}:
        return "image"
    words = [word for _, words in TEXT_NAMES for word in words]
    tokens = all(
        one.dtype in IDS
        and len(one.shape) == 2
        and one.shape[1] != 1
        and any(word in one.name.casefold() for word in words)
        for one in inputs
    )
    return "text" if tokens else "record"


def name_of(file: Path) -> str:
    """Return the file's name without its ending, in the characters of a name."""
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", file.stem)[:62]
    return plain if re.match("[A-Za-z_]", plain) else f"_{plain}"


def _columns(inputs: Sequence[Input]) -> list[str]:
    one = inputs[0]
    if len(inputs) > 1 or len(one.shape) != 2 or one.shape[1] in (None, 1):
        return []
    return [f"{one.name} {k + 1}" for k in range(one.shape[1])]
