"""The command that lists features, or pieces of a network: `polydom features`."""

import json
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polydom.features.errors import BadInput

from ..options import AsJson, FeatureFiles, Tokenizer
from ..process import prints_to_stderr
from ..reports.network_report import show_network
from ..reports.terminal import print_table

if TYPE_CHECKING:
    from polydom.features.feature import Feature


class ItemKind(Enum):
    """The kinds of items that features can describe."""

    IMAGE = "image"
    TEXT = "text"
    RECORD = "record"


def features(
    kind: Annotated[
        ItemKind | None,
        typer.Option(
            help="List only features of items of this kind. With --network: the kind "
            "that the network reads; default: guessed from its inputs."
        ),
    ] = None,
    files: FeatureFiles = [],  # noqa: B006  typer reads it, nothing writes it
    network: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Instead of features, list the places at which the neural network in "
            "this ONNX file can be cut.",
        ),
    ] = None,
    tokenizer: Tokenizer = None,
    as_json: AsJson = False,
) -> None:
    """List the features that a project may name, and the steps that they share.

    With --network, list where a neural network can be cut into features.
    """
    from rich.console import Console

    if network is not None:
        if files:
            raise BadInput(
                "--features lists features of Python files, and --network the pieces "
                "of a network; one of the two is needed"
            )
        show_network(network, kind.value if kind else None, tokenizer, as_json)
        return
    if tokenizer is not None:
        raise BadInput("--tokenizer is for a network, which --network FILE names")
    from polydom.features.loading import load_features, ready_made_features
    from polydom.features.ready_made.learned_text import RECIPES

    # imports of the user's files may print
    with prints_to_stderr():
        own = load_features([], files)
    rows: list[dict[str, str]] = [
        {"name": name, "kind": of, "steps": ", ".join(steps), "what": what}
        for name, of, steps, what in [
            *map(_describe, ready_made_features()),
            *((r.name, r.terms.kind, [r.terms.name], r.what) for r in RECIPES),
            *map(_describe, own),
        ]
        if kind is None or of == kind.value
    ]
    if as_json:
        typer.echo(json.dumps(rows))
        return
    if kind is ItemKind.RECORD and not rows:
        typer.echo("a record's features are its columns: see [[features.columns]]")
        return
    cells = [[*row.values()] for row in rows]
    heads = ("name", "kind", "shared steps", "what")
    print_table(Console(), heads, cells, names=4, lists=True)


def _describe(feature: "Feature") -> tuple[str, str, list[str], str]:
    """Return a feature's name, item kind, steps, and its docstring's first line."""
    what = (feature.function.__doc__ or "").strip().split("\n")[0]
    return feature.name, feature.kind, [step.name for step in feature.needs], what
