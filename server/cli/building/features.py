"""The command that lists features: `polydom features`."""

import json
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from ..options import AsJson, FeatureFiles
from ..process import prints_to_stderr
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
        ItemKind | None, typer.Option(help="List only features of items of this kind.")
    ] = None,
    files: FeatureFiles = [],  # noqa: B006  typer reads it, nothing writes it
    as_json: AsJson = False,
) -> None:
    """List the features that a project may name, and the steps that they share."""
    from rich.console import Console

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
