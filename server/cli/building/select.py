"""The command that races learners, and prints or plots the race: `polydom select`."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from polydom.features.errors import BadInput

from ..options import AsJson, CacheFolder, ProjectFile
from ..process import interruptible, prints_to_stderr
from .build import SAME_AGAIN

# Parameters that only one strategy has, and their options
PARAMETERS = {
    "daub": {
        "ratio": "--ratio",
        "granularity": "--granularity",
        "training_bound": "--no-training-bound",
    },
    "obms": {"quanta": "--quanta", "scale": "--scale"},
}


def select(
    project: ProjectFile,
    strategy: Annotated[
        str,
        typer.Option(
            help="Strategy of the race: knockout, daub, obms, all, uniform or halving."
        ),
    ] = "knockout",
    ratio: Annotated[
        float | None,
        typer.Option(
            help="daub: factor r between the examples of two trainings; default: 1.5."
        ),
    ] = None,
    granularity: Annotated[
        int | None,
        typer.Option(
            help="daub: examples b of the first training; default: 500, or N / r^2 if "
            "there are fewer than 500 r^2.",
        ),
    ] = None,
    no_training_bound: Annotated[
        bool,
        typer.Option(
            "--no-training-bound",
            help="daub: do not bound a learner's score by its training score.",
        ),
    ] = False,
    quanta: Annotated[
        int | None,
        typer.Option(help="obms: budget T in quanta; default: 3 for each learner."),
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option(help="obms: constant of the penalties; default: 0.02."),
    ] = None,
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

    from ..reports.race_report import plot_race, refuse_picture, show_race

    find_strategy(strategy)
    given = {
        "ratio": ratio,
        "granularity": granularity,
        "training_bound": False if no_training_bound else None,
        "quanta": quanta,
        "scale": scale,
    }
    parameters = {name: value for name, value in given.items() if value is not None}
    refuse_others(strategy, parameters)
    if plot is not None:
        refuse_picture(plot)
    bars = ProgressBars()
    plan = Project.load(project)
    with interruptible(SAME_AGAIN), prints_to_stderr():
        resources = open_resources(plan, cache=cache, progress=bars)
        data = prepare_data(plan, resources, strategy=strategy)
        race = choose_learner(data, resources, bars.follow, parameters).facts
    if plot is not None:
        plot_race(race, plot)
    if as_json:
        # msgspec writes NaN and infinity as null, as JSON has neither
        typer.echo(msgspec.json.encode(race).decode())
    else:
        show_race(race, Console())


def refuse_others(strategy: str, parameters: Iterable[str]) -> None:
    """Raise BadInput if a parameter of another strategy came."""
    for name in parameters:
        (owner,) = (one for one, own in PARAMETERS.items() if name in own)
        if owner != strategy:
            option = PARAMETERS[owner][name]
            raise BadInput(f"{option} is for --strategy {owner}, not for {strategy}")
