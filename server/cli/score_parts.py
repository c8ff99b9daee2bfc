"""`polydom score` into a folder, in parts, and what its total would buy."""

from pathlib import Path

import typer
from rich.console import Console

from polydom.features.figures import show_accuracy, show_cost
from polydom.features.readers.folders import readable
from polydom.indexer.cluster.connect import checked, connect, workers_of
from polydom.indexer.commands.progress_bars import ProgressBars

from ..batch.batch_plan import BatchPlan
from ..offline_scoring.batch_run import BatchRun
from .interrupts import resumable

# Of the total, beside which others are told.
BESIDE = (0.5, 1.0, 2.0)


def into_folder(
    batch: BatchRun,
    folder: Path,
    total: float,
    on: str,
    resume: bool,
    stops: bool,
) -> None:
    """Score a batch into a folder, and tell what it spent."""
    workers = workers_of(connect(on))
    _tell_remarks(batch)
    with (
        resumable(),
        ProgressBars(Console(stderr=True)).stage("scoring", batch.count) as progress,
    ):
        batch.carry_out(
            folder,
            total,
            checked(workers, [batch.index, *batch.features], folder),
            resume=resume,
            stops=stops,
            on_progress=progress,
        )
    typer.echo(_told(batch, folder, total))


def tell_ahead(batch: BatchRun, total: float) -> None:
    """Say what a total buys, and half of it and twice as much."""
    _tell_remarks(batch)
    lines = [f"{'total':>12}  {'an item':>12}  {'price':>10}  quality"]
    for part in BESIDE:
        plan = batch.foresee(part * total)
        lines.append(
            f"{_show(part * total, batch.unit):>12}  "
            f"{show_cost(plan.expected_cost, plan.unit):>12}  "
            f"{_show_price(plan):>10}  {show_accuracy(plan.expected_quality)}"
        )
    typer.echo("\n".join(lines))
    typer.echo(
        f"{batch.count:,} items in {len(batch.parts):,} parts; nothing is scored"
    )


def _tell_remarks(batch: BatchRun) -> None:
    for remark in batch.remarks():
        typer.echo(remark, err=True)


def _show_price(plan: BatchPlan) -> str:
    return "no step" if plan.price is None else f"{plan.price:.4g}"


def _show(amount: float, unit: str) -> str:
    """Write a sum of costs: hours, minutes or seconds, or an amount."""
    if unit != "s":
        return show_cost(amount, unit)
    for seconds, name in ((3600, "h"), (60, "min")):
        if amount >= seconds:
            return f"{amount / seconds:,.4g} {name}"
    return f"{amount:.4g} s"


def _told(batch: BatchRun, folder: Path, total: float) -> str:
    scored, unit = batch.scored, batch.unit
    rows, errors = sum(one.rows for one in scored), sum(one.errors for one in scored)
    spent = sum(one.spent for one in scored)
    text = (
        f"wrote {readable(folder)}: {rows:,} rows in {len(scored):,} parts, "
        f"{errors:,} of them errors\nspent {_show(spent, unit)} of {_show(total, unit)}"
    )
    if rows > errors:
        quality = sum(one.quality for one in scored) / (rows - errors)
        text += f" for an expected quality of {show_accuracy(quality)}"
    if unit == "s":
        measured_s = sum(one.measured_s for one in scored)
        text += f"; {_show(measured_s, unit)} of these processors"
    return text
