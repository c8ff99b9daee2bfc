"""The offline commands: `polydom init`, `build`, `measure`, `select` and others."""

import ctypes
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polydom.features.errors import BadProject, Unfinished, printable
from polydom.features.outputs import refuse_place

if TYPE_CHECKING:
    from rich.console import Console

    from polydom.features.feature import Feature

    from ..index.index import Index

app = typer.Typer(
    name="polydom",
    help="Answer predictions inside a time budget, with the most accurate model "
    "that fits.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

IndexFile = Annotated[Path, typer.Argument(metavar="INDEX", help="A .pdx file.")]


class Start(Enum):
    """What a project can start from."""

    IMAGES = "images"
    TEXTS = "texts"
    TABLE = "table"


class ItemKind(Enum):
    """What items can be."""

    IMAGE = "image"
    TEXT = "text"
    RECORD = "record"


CacheFolder = Annotated[
    Path | None,
    typer.Option(
        help="Keeps finished work, for build and select; default: .polydom-cache in "
        "the project file's folder.",
        show_default=False,
    ),
]
OwnFeatures = Annotated[
    list[Path] | None, typer.Option("--features", help="A file of your own.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose",
        "-v",
        help="Also how it was found: cost curves, what was tried, each size's choices.",
    ),
]


@app.command(epilog="Example: polydom init PROJECT.toml")
def init(
    path: Annotated[Path, typer.Argument(help="Where to write it.")] = Path(
        "PROJECT.toml"
    ),
    kind: Annotated[
        Start, typer.Option(help="What the items are: decides which lines are live.")
    ] = Start.IMAGES,
) -> None:
    """Write a commented project file to start from."""
    from ..building.template import template

    refuse_place(path)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(template(kind.value))
    except FileExistsError as error:
        what = f"is a folder; name a file: {path / 'PROJECT.toml'}"
        raise BadProject(
            f"{path} {what if path.is_dir() else 'exists; it is not overwritten'}"
        ) from error
    typer.echo(
        f"wrote {path}; let [data] in it name your items, then: "
        f"polydom build {path} -o my.pdx"
    )


@app.command(epilog="Example: polydom check PROJECT.toml")
def check(
    project: Annotated[Path, typer.Argument(help="The project file.")],
    as_json: AsJson = False,
) -> None:
    """Read the data of a project, and say what was understood, without training.

    A line for each column of a table says what it holds, how many cells are empty and
    what empty ones looked like. Warnings name what may be wrong with the data, and what
    to write in the project then.
    """
    import msgspec

    from ..building.data.check_data import check_data
    from ..building.project import Project
    from .progress_bars import ProgressBars

    with prints_to_stderr():
        found = check_data(Project.load(project), ProgressBars())
    if as_json:
        typer.echo(msgspec.json.encode(found.facts()).decode())
        return
    for line in found.lines():
        typer.echo(printable(line))


@app.command(epilog="Example: polydom build PROJECT.toml -o my.pdx")
def build(
    project: Annotated[Path, typer.Argument(help="The project file.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where the index goes.")
    ],
    cache: CacheFolder = None,
    on: Annotated[
        str | None,
        typer.Option(
            metavar="WHERE",
            help="Who does the work: local:8 for 8 processes here, dask://HOST:PORT, "
            "ray://auto or ray://HOST:PORT; default: the project's.",
            show_default=False,
        ),
    ] = None,
    shared: Annotated[
        Path | None,
        typer.Option(
            help="A folder that all workers see, in place of --cache; default: the "
            "project's.",
            show_default=False,
        ),
    ] = None,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Find which features are worth their time, and write that with models as an index.

    Interrupt it with Ctrl-C at any time: the same command goes on where it stopped.
    With [costs] measured = "later" it stops with exit code 3 where it needs times that
    `polydom measure PROJECT.toml` has not taken yet.
    """
    import msgspec

    from ..building.build import build as build_index
    from ..building.project import Project
    from .progress_bars import ProgressBars, show_times
    from .report import facts_of

    plan = Project.load(project)
    places = {"on": on, "shared": None if shared is None else str(shared.absolute())}
    named = {key: place for key, place in places.items() if place is not None}
    cluster = msgspec.structs.replace(plan.cluster, **named)
    plan = msgspec.structs.replace(plan, cluster=cluster)
    bars = ProgressBars()
    with _resumable(), _tells_what_lacks(as_json), prints_to_stderr(), _shows_data():
        index = build_index(
            plan, output=output, cache=cache, progress=bars, watch=bars.follow
        )
    facts, times = facts_of(index), bars.times.facts()
    if as_json:
        _warn_if_busy(facts)
        facts = {**facts, "stages_s": times}
    show_index(index, facts, as_json, verbose)
    if not as_json:
        _write(times, as_json, show_times)
        own = "".join(f" --features {file}" for file in plan.features.files)
        typer.echo(
            f"wrote {output}; next: polydom serve {output}{own}\n"
            f"how good it is on other labelled items: polydom evaluate {output}{own} "
            f"TEST --budgets 1,5,20"
        )


@app.command(epilog="Example: polydom select PROJECT.toml --plot race.png")
def select(
    project: Annotated[Path, typer.Argument(help="The project file.")],
    strategy: Annotated[
        str,
        typer.Option(help="gain-per-second, daub, all, uniform or halving."),
    ] = "gain-per-second",
    cache: CacheFolder = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw curves and allocations to this PNG.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Race learners on all of the project's features; name the one to use.

    Interrupt it with Ctrl-C at any time: the same command goes on where it stopped.
    """
    from polydom.models.selection.select import find_strategy

    from ..building.build import Builder, open_cluster
    from ..building.project import Project
    from .picture_file import refuse_picture
    from .progress_bars import ProgressBars
    from .report import plot_race, show_race

    find_strategy(strategy)
    if plot is not None:
        refuse_picture(plot)
    bars = ProgressBars()
    plan = Project.load(project)
    with _resumable(), prints_to_stderr():
        workers, kept = open_cluster(plan, cache=cache)
        builder = Builder(plan, kept, bars, bars.follow, strategy, workers=workers)
        facts = builder.choice.facts
    if plot is not None:
        plot_race(facts, plot)
    _write(facts, as_json, show_race)


@app.command(epilog="Example: polydom measure my.pdx -o here.pdx --data PROJECT.toml")
def measure(
    what: Annotated[
        Path,
        typer.Argument(metavar="INDEX|PROJECT.toml", help="A .pdx file, or a project."),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Where the new index goes, which may be INDEX."
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="PROJECT.toml",
            help="Measure INDEX on this project's items, not on the few it carries.",
        ),
    ] = None,
    files: OwnFeatures = None,
    cache: Annotated[
        Path | None,
        typer.Option(
            "--cache",
            "--shared",
            help="Where the build of PROJECT.toml keeps its work; default: the "
            "project's shared folder, or .polydom-cache beside it.",
            show_default=False,
        ),
    ] = None,
    anew: Annotated[
        bool,
        typer.Option(
            "--anew",
            help="Of PROJECT.toml: take all times again, not just missing ones.",
        ),
    ] = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Measure on this machine what everything costs: of an index, or amid a build.

    polydom measure INDEX -o NEW writes the index with what it costs here. Sets, models
    and exits stay. What the build dropped, since other sets were as good and cheaper
    there, stays dropped: only building again brings it back.

    polydom measure PROJECT.toml -o INDEX takes the times that a build elsewhere left
    open, for [costs] measured = "later". The index is written when nothing else lacks;
    else the exit code is 3, and `polydom build` is to go on.
    """
    if not _is_index(what):
        _refuse_options({"--data": data, "--features": files}, "INDEX")
        return _measure_project(what, output, cache, anew, verbose, as_json)
    _refuse_options({"--cache": cache, "--anew": anew}, "PROJECT.toml")
    if output is None:
        hint = "--output / -o"
        raise typer.BadParameter("say where the new index goes", param_hint=hint)
    return _measure_index(what, output, data, files, verbose, as_json)


def _is_index(path: Path) -> bool:
    """Tell an index from a project by how the file begins, or else by its name."""
    from ..index.pdx_file import is_index

    if path.suffix == ".pdx" or not path.is_file():
        return path.suffix != ".toml"
    return is_index(path)


def _refuse_options(given: dict[str, Any], of: str) -> None:
    """Refuse what is for the other kind of file."""
    for name, value in given.items():
        if value:
            raise typer.BadParameter(f"this is for {of}", param_hint=name)


def _measure_project(
    project: Path,
    output: Path | None,
    cache: Path | None,
    anew: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Take the times that a build lacks; show the index, if that is all."""
    from ..building.measure_project import measure_project
    from .progress_bars import ProgressBars
    from .report import facts_of

    with _resumable(), _tells_what_lacks(as_json), prints_to_stderr():
        index = measure_project(
            project, output=output, cache=cache, anew=anew, progress=ProgressBars()
        )
    facts = facts_of(index)
    if as_json:
        _warn_if_busy(facts)
    show_index(index, facts, as_json, verbose)
    if not as_json:
        done = (
            f"wrote {output}" if output else "nothing is missing; -o writes the index"
        )
        typer.echo(done)


def _measure_index(
    index: Path,
    output: Path,
    data: Path | None,
    files: list[Path] | None,
    verbose: bool,
    as_json: bool,
) -> None:
    """Write an index with what everything costs here."""
    from ..building.project import Project
    from ..building.remeasure import carried_items, project_items, remeasure
    from ..index.index import Index
    from ..index.pdx_file import refuse_index
    from .progress_bars import ProgressBars
    from .report import facts_of, show_measured, show_times_of

    refuse_index(output)
    loaded = Index.load(index)
    plan = None if data is None else Project.load(data)
    with prints_to_stderr():
        items = project_items(loaded, plan) if plan else carried_items(loaded)
        remeasure(
            loaded,
            items,
            ProgressBars(),
            files=[*(files or []), *(plan.feature_files if plan else [])],
            repeats=plan.costs.repeats if plan else None,
        ).save(output)
    facts = facts_of(Index.load(output))
    _warn_if_busy(facts)
    _write(facts, as_json, show_measured if verbose else show_times_of)
    if not as_json:
        typer.echo(
            f"wrote {output}: the {facts['candidates']} feature sets of {index}, "
            f"measured on {len(items)} items; sets that the build dropped stay dropped"
        )


def _write(
    facts: dict[str, Any],
    as_json: bool,
    show: Callable[[dict[str, Any], "Console"], None],
) -> None:
    """Print facts: as one JSON object, or for people."""
    import msgspec
    from rich.console import Console

    if as_json:
        # NaN and infinity are null, as JSON has neither
        typer.echo(msgspec.json.encode(facts).decode())
    else:
        show(facts, Console())


def _warn_if_busy(facts: dict[str, Any]) -> None:
    """Say on standard error that costs were measured on a busy machine, if so."""
    from .report import busy_words

    measured = facts["build"].get("measured")
    if measured and measured["busy"]:
        typer.echo(f"polydom: {busy_words(measured)}", err=True)


def show_index(
    index: "Index", facts: dict[str, Any], as_json: bool, verbose: bool
) -> None:
    """Print the facts of an index: in plain words first, all of them if asked."""
    from .report import show
    from .summary import show_summary

    _write(facts, as_json, lambda facts, console: show_summary(index, facts, console))
    if verbose and not as_json:
        typer.echo()
        _write(facts, as_json, show)


@app.command(epilog="Example: polydom features --kind image")
def features(
    kind: Annotated[
        ItemKind | None, typer.Option(help="Only those for items of this kind.")
    ] = None,
    files: OwnFeatures = None,
    as_json: AsJson = False,
) -> None:
    """List the features a project may name, and the steps they share."""
    from rich.console import Console
    from rich.table import Table

    from polydom.features.loading import load_features, ready_made_features
    from polydom.features.ready_made.learned_text import RECIPES

    with prints_to_stderr():
        own = load_features([], files or [])
    rows: list[dict[str, str]] = [
        {"name": name, "kind": of, "steps": ", ".join(steps), "what": what}
        for name, of, steps, what in [
            *map(_told, ready_made_features()),
            *((r.name, r.terms.kind, [r.terms.name], r.what) for r in RECIPES),
            *map(_told, own),
        ]
        if kind is None or of == kind.value
    ]
    if as_json:
        typer.echo(json.dumps(rows))
        return
    if kind is ItemKind.RECORD and not rows:
        typer.echo("a record's features are its columns: see [[features.columns]]")
        return
    table = Table("name", "kind", "shared steps", "what", box=None)
    for row in rows:
        table.add_row(*row.values())
    Console().print(table)


def _told(feature: "Feature") -> tuple[str, str, list[str], str]:
    """Name of a feature, the kind of its items, its steps, and what it is."""
    what = (feature.function.__doc__ or "").strip().split("\n")[0]
    return feature.name, feature.kind, [step.name for step in feature.needs], what


@contextmanager
def _resumable() -> Iterator[None]:
    """Say on Ctrl-C that nothing is lost."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("\ninterrupted; the same command goes on where it stopped", err=True)
        raise typer.Exit(130) from None


@contextmanager
def _shows_data() -> Iterator[None]:
    """Print on standard error what was understood of the data, once it is read."""
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


@contextmanager
def _tells_what_lacks(as_json: bool) -> Iterator[None]:
    """Print, where one JSON object is wanted, what another machine is to do first."""
    try:
        yield
    except Unfinished as error:
        if as_json:
            typer.echo(json.dumps({"code": error.code, "message": str(error)}))
        raise


@contextmanager
def prints_to_stderr() -> Iterator[None]:
    """Send to standard error what is printed meanwhile, by Python or compiled code.

    Also by processes started meanwhile. Standard output then holds the command's own
    answer alone, which a script may read.
    """
    _flush()
    try:
        kept = os.dup(1)
    except OSError:  # the caller closed it
        with redirect_stdout(sys.stderr):
            yield
        return
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _flush()
        os.dup2(kept, 1)
        os.close(kept)


def _flush() -> None:
    """Write out what waits in the buffers of Python and of the C library."""
    for stream in (sys.stdout, sys.__stdout__):
        if stream is not None:
            stream.flush()
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).fflush(None)
