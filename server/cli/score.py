"""The offline command of the online side: `polydom score`."""

import os
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polydom.features.errors import BadInput
from polydom.features.readers.folders import readable
from polydom.indexer.commands.app import IndexFile

from .amounts import read_amount, read_total
from .interrupts import resumable
from .options import Encoding, Exact, FeatureFiles, Separator

if TYPE_CHECKING:
    from ..offline_scoring.run import ScoreRun


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
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="A .parquet, .jsonl or .csv file; or a folder/, which gets parts.",
        ),
    ] = None,
    total_budget: Annotated[
        str | None,
        typer.Option(
            "--total-budget",
            "-b",
            help="What all items may cost together: 500ms, 60s, 5m, 2h by the clock, "
            "into a file; or a number, for an index that counts no time.",
        ),
    ] = None,
    total_cpu: Annotated[
        str | None,
        typer.Option(
            help="Into a folder, what all items may take of processors together: 90m, "
            "500h; of such as the index was measured on."
        ),
    ] = None,
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
    on: Annotated[
        str,
        typer.Option(
            metavar="WHERE",
            help="Who computes: local:8 for 8 processes here; into a folder also "
            "dask://HOST:PORT, ray://auto or ray://HOST:PORT.",
        ),
    ] = "local:1",
    keep: Annotated[
        list[str],
        typer.Option(help="Into a folder: a column of yours beside the answers."),
    ] = [],  # noqa: B006
    part_items: Annotated[
        int | None,
        typer.Option(min=1, help="Into a folder: items of each part, at most."),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on where the same command was interrupted."),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Say what the total buys in a folder; score nothing."
        ),
    ] = False,
) -> None:
    """Classify many items under one budget for all: into a file, or in parts.

    A file appears when all is done. Until then finished rows are in OUTPUT.partial. A
    folder gets a file for each part of the items, from workers of this machine or of a
    cluster. Interrupt with Ctrl-C at any time, and go on with --resume: a file under a
    budget for what is left, a folder under that for all.
    """
    in_parts = dry_run or (output is not None and _is_folder(output))
    of_files: dict[str, object] = {
        "label": label,
        "top": top,
        "separator": separator,
        "encoding": encoding,
    }
    of_folders: dict[str, object] = {
        "total-cpu": total_cpu,
        "keep": keep,
        "part-items": part_items,
    }
    for name, value in (of_files if in_parts else of_folders).items():
        if value:
            kind = "a file" if in_parts else "a folder, such as -o out/"
            raise BadInput(f"--{name} is for scoring into {kind}")
    if output is None and not dry_run:
        raise BadInput("say where answers go: --output, a file or a folder")
    stops = on_error is OnError.STOP
    if in_parts:
        from ..offline_scoring.batch_run import BatchRun
        from .score_parts import into_folder, tell_ahead

        batch = BatchRun(index, items, features, keep, exact, part_items)
        total = read_total(batch.unit, total_budget, total_cpu)
        if dry_run:
            tell_ahead(batch, total)
        else:
            into_folder(batch, Path(str(output)), total, on, resume, stops)
        return
    from ..offline_scoring.run import ScoreRun

    run = ScoreRun(
        index,
        items,
        Path(str(output)),
        features,
        resume,
        label,
        top,
        separator,
        encoding,
        exact,
    )
    if total_budget is None:
        raise BadInput("say with --total-budget what all items may cost together")
    amount = read_amount("--total-budget", total_budget, run.unit)
    _into_file(run, amount, on, stops)


def _is_folder(output: str) -> bool:
    """Say whether answers go into a folder: one that is there, or is named as one."""
    return (
        output.endswith(("/", os.sep))
        or Path(output).is_dir()
        or not Path(output).suffix
    )


def _into_file(run: "ScoreRun", amount: float, on: str, stops: bool) -> None:
    from rich.console import Console

    from polydom.indexer.cluster.connect import connect, workers_of
    from polydom.indexer.commands.progress_bars import ProgressBars

    if "://" in on:
        raise BadInput(f"--on {on}: a cluster scores into a folder, such as -o out/")
    workers = workers_of(connect(on)).count
    with (
        resumable(),
        ProgressBars(Console(stderr=True)).stage(
            "scoring", run.source.number
        ) as on_progress,
    ):
        errors = run.carry_out(amount, workers, stops, on_progress)
    for remark in run.source.remarks():
        typer.echo(remark, err=True)
    output = readable(run.output)
    typer.echo(f"wrote {output}: {run.rows:,} rows, {errors:,} of them errors")
