"""The command that writes a project file to start from: `polydom init`."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from polydom.features.errors import BadInput, BadProject
from polydom.features.outputs import refuse_place

from ..options import Tokenizer


class Start(Enum):
    """The kinds of items for which `polydom init` can write a project file."""

    IMAGES = "images"
    TEXTS = "texts"
    TABLE = "table"


def init(
    path: Annotated[Path, typer.Argument(help="Project file to write.")] = Path(
        "PROJECT.toml"
    ),
    kind: Annotated[
        Start,
        typer.Option(
            help="Kind of the items; lines for other kinds are commented out."
        ),
    ] = Start.IMAGES,
    network: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Neural network, an ONNX file, whose pieces are to be features, too.",
        ),
    ] = None,
    tokenizer: Tokenizer = None,
) -> None:
    """Write a commented project file to start from."""
    from polydom.indexer.building.template import network_keys, template

    refuse_place(path)
    keys = None
    if network is not None:
        keys = network_keys(kind.value, network, tokenizer, path.parent)
    elif tokenizer is not None:
        raise BadInput("--tokenizer is for a network, which --network FILE names")
    try:
        # mode x fails if the file exists, also if it appears at this moment
        with path.open("x", encoding="utf-8") as file:
            file.write(template(kind.value, keys))
    except FileExistsError as error:
        what = f"is a folder; name a file: {path / 'PROJECT.toml'}"
        raise BadProject(
            f"{path} {what if path.is_dir() else 'exists; it is not overwritten'}"
        ) from error
    typer.echo(
        f"wrote {path}; let [data] in it name your items, then: "
        f"polydom build {path} -o my.pdx"
    )
