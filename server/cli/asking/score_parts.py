"""The command that scores items in parts, also on a cluster: `polydom score-parts`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polydom.features.errors import BadInput
from polydom.features.figures import show_accuracy, show_cost
from polydom.features.readers.folders import readable

from ..options import (
    Exact,
    FeatureFiles,
    IndexFile,
    ItemsFile,
    OnError,
    OnErrorChoice,
    Resume,
    read_amount,
)
from ..process import interruptible
from .score import RESUME

if TYPE_CHECKING:
    from ...offline_scoring.folder_run import FolderRun

# Multiples of the total budget for which --dry-run predicts the quality.
MULTIPLES = (0.5, 1.0, 2.0)


def score_parts(
    index: IndexFile,
    items: ItemsFile,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Folder to write; it gets one file for each part."
        ),
    ] = None,
    total_cpu: Annotated[
        str | None,
        typer.Option(
            help="Budget of all items: 90m or 500h of processor time, on processors "
            "like the one that measured the index."
        ),
    ] = None,
    total_budget: Annotated[
        str | None,
        typer.Option(
            "--total-budget",
            "-b",
            help="Budget of all items in the index's unit, if that is not time; "
            "instead of --total-cpu.",
        ),
    ] = None,
    features: FeatureFiles = [],  # noqa: B006  typer reads it, nothing writes it
    on_error: OnErrorChoice = OnError.SKIP,
    exact: Exact = False,
    on: Annotated[
        str,
        typer.Option(
            metavar="WHERE",
            help="Workers: local:8 for 8 processes on this machine, dask://HOST:PORT, "
            "ray://auto or ray://HOST:PORT.",
        ),
    ] = "local:1",
    keep: Annotated[
        list[str],
        typer.Option(
            help="Column of the items that the output repeats; may be given several "
            "times."
        ),
    ] = [],  # noqa: B006
    part_items: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of items of each part.")
    ] = None,
    resume: Resume = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Print what the total budget buys, and score nothing."
        ),
    ] = False,
) -> None:
    """Classify many items under one budget for all of them, into a folder of parts.

    Workers of this machine or of a cluster write a file for each part. After Ctrl-C,
    the same command with --resume continues, under the same budget for all items.
    """
    from polydom.indexer.cluster.connect import checked, connect, workers_of
    from polydom.indexer.progress_bars import ProgressBars

    from ...offline_scoring.folder_run import FolderRun

    if output is None and not dry_run:
        raise BadInput("say where answers go: --output, a folder")
    batch = FolderRun(index, items, features, keep, exact, part_items)
    total = _read_total(batch.unit, total_budget, total_cpu)
    workers = None if dry_run else workers_of(connect(on))
    for remark in batch.remarks():
        typer.echo(remark, err=True)
    if output is None or workers is None:
        typer.echo(_foretell(batch, total))
        return
    with interruptible(RESUME), ProgressBars().stage("scoring", batch.count) as told:
        batch.carry_out(
            output,
            total,
            checked(workers, [batch.index, *batch.features], output),
            resume=resume,
            stops=on_error is OnError.STOP,
            on_progress=told,
        )
    typer.echo(_summarize(batch, output, total))


def _read_total(unit: str, total_budget: str | None, total_cpu: str | None) -> float:
    """Return the options' total budget: processor seconds, or an amount in `unit`."""
    if unit != "s":
        if total_cpu is not None or total_budget is None:
            raise BadInput(f"this index counts costs in {unit}: give --total-budget")
        return read_amount("--total-budget", total_budget, unit)
    if total_budget is not None or total_cpu is None:
        raise BadInput(
            "say with --total-cpu what parts may take of processors together; the "
            "clock's time is no budget where workers come and go"
        )
    return read_amount("--total-cpu", total_cpu, unit)


def _foretell(batch: "FolderRun", total: float) -> str:
    """Return a table of the expected quality for half, one and two times the budget."""
    lines = [f"{'total':>12}  {'an item':>12}  {'price':>10}  quality"]
    for multiple in MULTIPLES:
        plan = batch.foresee(multiple * total)
        price = "no step" if plan.price is None else f"{plan.price:.4g}"
        lines.append(
            f"{_show_sum(multiple * total, batch.unit):>12}  "
            f"{show_cost(plan.expected_cost, plan.unit):>12}  "
            f"{price:>10}  {show_accuracy(plan.expected_quality)}"
        )
    number = f"{batch.count:,} items in {len(batch.parts):,} parts"
    return "\n".join([*lines, f"{number}; nothing is scored"])


def _show_sum(amount: float, unit: str) -> str:
    """Format a cost: a time in hours, minutes or seconds, or an amount in `unit`."""
    if unit != "s":
        return show_cost(amount, unit)
    for seconds, name in ((3600, "h"), (60, "min")):
        if amount >= seconds:
            return f"{amount / seconds:,.4g} {name}"
    return f"{amount:.4g} s"


def _summarize(batch: "FolderRun", folder: Path, total: float) -> str:
    scored, unit = batch.scored, batch.unit
    rows, errors = sum(one.rows for one in scored), sum(one.errors for one in scored)
    spent = sum(one.spent for one in scored)
    text = (
        f"wrote {readable(folder)}: {rows:,} rows in {len(scored):,} parts, "
        f"{errors:,} of them errors\n"
        f"spent {_show_sum(spent, unit)} of {_show_sum(total, unit)}"
    )
    if rows > errors:
        quality = sum(one.quality for one in scored) / (rows - errors)
        text += f" for an expected quality of {show_accuracy(quality)}"
    if unit == "s":
        measured_s = sum(one.measured_s for one in scored)
        text += f"; {_show_sum(measured_s, unit)} of these processors"
    return text
