"""The command that races learners, and prints or plots the race: `polydom select`."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from .build import SAME_AGAIN
from .options import AsJson, CacheFolder, ProjectFile
from .process import interruptible, prints_to_stderr


def select(
    project: ProjectFile,
    strategy: Annotated[
        str,
        typer.Option(
            help="Strategy of the race: knockout, daub, all, uniform or halving."
        ),
    ] = "knockout",
    cache: CacheFolder = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw learning curves and allocations to this PNG file."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare learners on all features of a project, and name the learner to use.

    Interrupt it with Ctrl-C at any time: the same command goes on where it stopped.
    """
    from rich.console import Console

    from polydom.indexer.building.learner_race import choose_learner
    from polydom.indexer.building.prepare import prepare_data
    from polydom.indexer.building.project import Project
    from polydom.indexer.building.resources import open_resources
    from polydom.indexer.progress_bars import ProgressBars
    from polydom.models.selection.select import find_strategy

    from .reports.race_report import plot_race, refuse_picture, show_race

    find_strategy(strategy)
    if plot is not None:
        refuse_picture(plot)
    bars = ProgressBars()
    plan = Project.load(project)
    with interruptible(SAME_AGAIN), prints_to_stderr():
        resources = open_resources(plan, cache=cache, progress=bars)
        data = prepare_data(plan, resources, strategy=strategy)
        race = choose_learner(data, resources, bars.follow).facts
    if plot is not None:
        plot_race(race, plot)
    if as_json:
        # msgspec writes NaN and infinity as null, as JSON has neither
        typer.echo(msgspec.json.encode(race).decode())
    else:
        show_race(race, Console())
