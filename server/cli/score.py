"""The offline command of the online side: `polydom score`."""

import re
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from polydom.features.errors import BadInput
from polydom.indexer.commands.app import IndexFile

from .options import Encoding, Exact, FeatureFiles, Separator

SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


class OnError(Enum):
    """What to do about an item that cannot be answered."""

    SKIP = "skip"
    STOP = "stop"


def score(
    index: IndexFile,
    items: Annotated[
        Path,
        typer.Argument(help="A folder, or a .jsonl, .csv, .tsv or .parquet file."),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A .parquet, .jsonl or .csv file.")
    ],
    total_budget: Annotated[
        str,
        typer.Option(
            "--total-budget",
            "-b",
            help="What all items may cost together: 500ms, 60s, 5m, 2h; or a number, "
            "for an index that counts no time.",
        ),
    ],
    features: FeatureFiles = [],  # noqa: B006  typer reads it, nothing writes it
    on_error: Annotated[
        OnError, typer.Option(help="An item that cannot be answered: go on, or not.")
    ] = OnError.SKIP,
    label: Annotated[
        str | None, typer.Option(help="With --top: the class to look for.")
    ] = None,
    top: Annotated[
        int | None, typer.Option(min=1, help="Only the items most likely of --label.")
    ] = None,
    separator: Separator = None,
    encoding: Encoding = None,
    exact: Exact = False,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on where the same command was interrupted."),
    ] = False,
) -> None:
    """Classify many items in this process, under one budget for all.

    The output appears when all is done. Until then finished rows are in OUTPUT.partial:
    interrupt with Ctrl-C at any time, and go on with --resume, under a budget for what
    is left.
    """
    from rich.console import Console

    from polydom.indexer.commands.progress_bars import ProgressBars

    from ..offline_scoring.run import ScoreRun

    run = ScoreRun(
        index,
        items,
        output,
        features,
        resume,
        label,
        top,
        separator,
        encoding,
        exact,
    )
    amount = _amount(total_budget, run.unit)
    try:
        with ProgressBars(Console(stderr=True)).stage(
            "scoring", run.source.number
        ) as on_progress:
            errors = run.carry_out(
                amount, workers, on_error is OnError.STOP, on_progress
            )
    except KeyboardInterrupt:
        typer.echo("\ninterrupted; --resume goes on where it stopped", err=True)
        raise typer.Exit(130) from None
    for remark in run.source.remarks():
        typer.echo(remark, err=True)
    typer.echo(f"wrote {output}: {run.rows:,} rows, {errors:,} of them errors")


def _amount(text: str, unit: str) -> float:
    """Read `60s`, or a bare number in a unit that is no time."""
    found = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)(ms|s|m|h)?", text.strip())
    if found is None or (found[2] is not None) != (unit == "s"):
        wanted = "such as 500ms, 60s, 5m or 2h" if unit == "s" else f"in {unit}"
        raise BadInput(f"--total-budget {text}: a number {wanted} is needed")
    return float(found[1]) * SECONDS.get(found[2] or "", 1.0)
