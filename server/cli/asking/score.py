"""The command that scores many items into one file: `polydom score`."""

from pathlib import Path
from typing import Annotated

import typer

from polydom.features.errors import BadInput
from polydom.features.readers.folders import readable

from ..options import (
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
from ..process import interruptible

# Message after scoring was interrupted.
RESUME = "--resume goes on where it stopped"


def score(
    index: IndexFile,
    items: ItemsFile,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="File to write: .parquet, .jsonl or .csv."),
    ],
    total_budget: Annotated[
        str,
        typer.Option(
            "--total-budget",
            "-b",
            help="Budget of all items: 500ms, 60s, 5m or 2h of elapsed time; or an "
            "amount in the index's unit, if that is not time.",
        ),
    ],
    features: FeatureFiles = [],  # noqa: B006  typer reads it, nothing writes it
    on_error: OnErrorChoice = OnError.SKIP,
    label: Annotated[
        str | None, typer.Option(help="With --top: the class to look for.")
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Write only this number of items, those most likely of class --label.",
        ),
    ] = None,
    separator: Separator = None,
    encoding: Encoding = None,
    exact: Exact = False,
    on: Annotated[
        str,
        typer.Option(
            metavar="WHERE", help="Workers: local:8 for 8 processes on this machine."
        ),
    ] = "local:1",
    resume: Resume = False,
) -> None:
    """Classify many items under one budget for all of them, and write one file.

    The file appears at the end; until then finished rows are in OUTPUT.partial. After
    Ctrl-C, the same command with --resume continues with the items that are left; its
    budget is for these items only. A budget begins with the first item, when the code
    is loaded and compiled. `polydom score-parts` writes parts, also on a cluster.
    """
    from polydom.indexer.cluster.connect import connect, workers_of
    from polydom.indexer.progress_bars import ProgressBars

    from ...offline_scoring.file_run import FileRun

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
    progress = ProgressBars()
    with interruptible(RESUME):
        with progress.stage("warming up, not in the budget", 1) as warmed:
            ready = run.warm_up(workers)
            warmed(1)
        with progress.stage("scoring", number) as told:
            errors = run.carry_out(ready, amount, on_error is OnError.STOP, told)
    for remark in run.source.remarks():
        typer.echo(remark, err=True)
    typer.echo(
        f"wrote {readable(run.output)}: {run.rows:,} rows, {errors:,} of them errors"
    )
