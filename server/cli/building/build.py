"""The command that builds an index from a project: `polydom build`."""

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from polydom.features.errors import Unfinished

from ..options import AsJson, CacheFolder, ProjectFile, Verbose
from ..process import interruptible, prints_to_stderr
from ..reports.terminal import print_table

if TYPE_CHECKING:
    from rich.console import Console

# Message after a build or a race was interrupted.
SAME_AGAIN = "the same command goes on where it stopped"
SHOWN = 0.01  # smallest share of the total time for which a stage gets its own line


def build(
    project: ProjectFile,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to write the index to.")
    ],
    cache: CacheFolder = None,
    on: Annotated[
        str | None,
        typer.Option(
            metavar="WHERE",
            help="Workers of the build: local:8 for 8 processes on this machine, "
            "dask://HOST:PORT, ray://auto or ray://HOST:PORT; default: the "
            "project's.",
            show_default=False,
        ),
    ] = None,
    shared: Annotated[
        Path | None,
        typer.Option(
            help="Folder that all workers see, instead of --cache; default: the "
            "project's.",
            show_default=False,
        ),
    ] = None,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Find the features that are worth their time; build an index of models on them.

    Interrupt it with Ctrl-C at any time: the same command goes on where it stopped.
    With [costs] measured = "later", it stops with exit code 3 when it needs measured
    times: run `polydom measure PROJECT.toml`, then this command again.
    """
    from rich.console import Console

    from polydom.indexer.building.build import build as build_index
    from polydom.indexer.building.project import Project
    from polydom.indexer.index.facts import facts_of
    from polydom.indexer.progress_bars import ProgressBars

    from ..reports.index_report import show_index, warn_if_busy

    plan = Project.load(project)
    places = {"on": on, "shared": None if shared is None else str(shared.absolute())}
    named = {key: place for key, place in places.items() if place is not None}
    cluster = msgspec.structs.replace(plan.cluster, **named)
    plan = msgspec.structs.replace(plan, cluster=cluster)
    bars = ProgressBars()
    with (
        interruptible(SAME_AGAIN),
        prints_unfinished(as_json),
        prints_to_stderr(),
        _shows_data(),
    ):
        index = build_index(
            plan, output=output, cache=cache, progress=bars, watch=bars.follow
        )
    facts, times = facts_of(index), bars.times.facts()
    if as_json:
        warn_if_busy(facts)
        facts.stages_s = times
    show_index(index, facts, as_json, verbose)
    if not as_json:
        show_times(times, Console())
        own = "".join(f" --features {file}" for file in plan.features.files)
        sources = dict.fromkeys(one.source for one in plan.fetches.values())
        fetches = "".join(f" --fetches {file}" for file in sources if file)
        typer.echo(
            f"wrote {output}; next: polydom serve {output}{own}{fetches}\n"
            f"how good it is on other labelled items: polydom evaluate {output}{own} "
            f"TEST --budgets 1,5,20"
        )


@contextmanager
def prints_unfinished(as_json: bool) -> Iterator[None]:
    """Print an `Unfinished` error of a `with` block as JSON if `as_json`; re-raise it.

    A build raises `Unfinished` when another machine has to continue it.
    """
    try:
        yield
    except Unfinished as error:
        if as_json:
            typer.echo(json.dumps({"code": error.code, "message": str(error)}))
        raise


@contextmanager
def _shows_data() -> Iterator[None]:
    """While the block runs, print to standard error how the data are interpreted."""
    log, handler = logging.getLogger("polydom.data"), logging.StreamHandler()
    before = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.level, log.propagate = before


def show_times(seconds: Mapping[str, float], console: "Console") -> None:
    """Print a table of a build's longest stages, given the `seconds` of each stage."""
    whole = sum(seconds.values())
    rows = [
        (name, f"{took:,.1f}", f"{took / whole:.0%}")
        for name, took in seconds.items()
        if took >= SHOWN * whole
    ]
    rows.append(("in all", f"{whole:,.1f}", ""))
    print_table(console, ("where the time went", "seconds", "share"), rows)
