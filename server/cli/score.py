"""The command that scores many items into one file: `polydom score`."""

from pathlib import Path
from typing import Annotated

import typer

from polydom.features.errors import BadInput
from polydom.features.readers.folders import readable

from .options import (
    Encoding,
    Exact,
    FeatureFiles,
    IndexFile,
    ItemsFile,
    OnError,
    OnErrorChoice,
    Resume,
    Separator,
    read_amount,
)
from .process import interruptible

# Message after scoring was interrupted.
RESUME = "--resume goes on where it stopped"


def score(
    index: IndexFile,
    items: ItemsFile,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="A .parquet, .jsonl or .csv file."),
    ],
    total_budget: Annotated[
        str,
        typer.Option(
            "--total-budget",
            "-b",
            help="What all items may cost together: 500ms, 60s, 5m, 2h by the clock; "
            "or a number, for an index that counts no time.",
        ),
    ],
    features: FeatureFiles = [],  # noqa: B006  typer reads it, nothing writes it
    on_error: OnErrorChoice = OnError.SKIP,
    label: Annotated[
        str | None, typer.Option(help="With --top: the class to look for.")
    ] = None,
    top: Annotated[
        int | None, typer.Option(min=1, help="Only the items most likely of --label.")
    ] = None,
    separator: Separator = None,
    encoding: Encoding = None,
    exact: Exact = False,
    on: Annotated[
        str,
        typer.Option(metavar="WHERE", help="local:8 for 8 processes of this machine."),
    ] = "local:1",
    resume: Resume = False,
) -> None:
    """Classify many items under one budget for all of them, and write one file.

    The file appears at the end; until then finished rows are in OUTPUT.partial. After
    Ctrl-C, the same command with --resume continues with the items that are left; its
    budget is for these items only. `polydom score-parts` writes parts, also on a
    cluster.
    """
    from polydom.indexer.cluster.connect import connect, workers_of
    from polydom.indexer.progress_bars import ProgressBars

    from ..offline_scoring.file_run import FileRun

    parts = "`polydom score-parts` writes a folder of parts"
    if output.is_dir() or not output.suffix:
        raise BadInput(f"-o {output}: a file is needed; {parts}")
    if "://" in on:
        raise BadInput(f"--on {on}: local:N is needed; {parts}, on a cluster too")
    run = FileRun(
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
    amount = read_amount("--total-budget", total_budget, run.unit)
    workers = workers_of(connect(on)).count
    number = run.source.total
    with interruptible(RESUME), ProgressBars().stage("scoring", number) as told:
        errors = run.carry_out(amount, workers, on_error is OnError.STOP, told)
    for remark in run.source.remarks():
        typer.echo(remark, err=True)
    typer.echo(
        f"wrote {readable(run.output)}: {run.rows:,} rows, {errors:,} of them errors"
    )
