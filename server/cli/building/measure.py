"""The command that measures costs on this machine: `polydom measure`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ..options import AsJson, FeatureFiles, Verbose
from ..process import interruptible, prints_to_stderr
from .build import SAME_AGAIN, prints_unfinished


def measure(
    what: Annotated[
        Path,
        typer.Argument(metavar="INDEX|PROJECT.toml", help="A .pdx file, or a project."),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="File to write the new index to; INDEX itself is allowed.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="PROJECT.toml",
            help="Measure INDEX on the items of this project, instead of the few items "
            "in the index.",
        ),
    ] = None,
    files: FeatureFiles = [],  # noqa: B006  typer reads it, nothing writes it
    cache: Annotated[
        Path | None,
        typer.Option(
            "--cache",
            "--shared",
            help="Folder of the build's finished work; default: the project's shared "
            "folder, or .polydom-cache in the project file's folder.",
            show_default=False,
        ),
    ] = None,
    anew: Annotated[
        bool,
        typer.Option(
            "--anew",
            help="With PROJECT.toml: measure all times again, not only missing times.",
        ),
    ] = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Measure costs on this machine, for an index or for a project's unfinished build.

    polydom measure INDEX -o NEW writes a copy of the index with this machine's costs.
    Feature sets, models and early exits remain the same. If the build dropped a feature
    set, because another set was as good and cheaper on the build's machine, the set
    remains dropped: only a new build can bring it back.

    polydom measure PROJECT.toml -o INDEX is for a build with [costs] measured =
    "later", which runs on another machine and needs times of this machine. It measures
    them and, if nothing else is missing, writes the index. Otherwise the exit code is
    3, and `polydom build` has to continue.
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
    """Return True for an index, False for a project.

    The first bytes of the file decide, unless its name ends in `.pdx`. If there is no
    file, only a name that ends in `.toml` means a project.
    """
    from polydom.indexer.index.file.pdx_file import is_index

    if path.suffix == ".pdx" or not path.is_file():
        return path.suffix != ".toml"
    return is_index(path)


def _refuse_options(given: dict[str, Any], argument: str) -> None:
    """Raise BadParameter if an option of `given` has a value.

    `given` maps names of options to values. The message says that the option is only
    for `argument`, such as INDEX.
    """
    for name, value in given.items():
        if value:
            raise typer.BadParameter(f"this is for {argument}", param_hint=name)


def _measure_project(
    project: Path,
    output: Path | None,
    cache: Path | None,
    anew: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    from polydom.indexer.building.costs.measure_project import measure_project
    from polydom.indexer.index.facts import facts_of
    from polydom.indexer.progress_bars import ProgressBars

    from ..reports.index_report import show_index, warn_if_busy

    with interruptible(SAME_AGAIN), prints_unfinished(as_json), prints_to_stderr():
        index = measure_project(
            project, output=output, cache=cache, anew=anew, progress=ProgressBars()
        )
    facts = facts_of(index)
    if as_json:
        warn_if_busy(facts)
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
    files: list[Path],
    verbose: bool,
    as_json: bool,
) -> None:
    from polydom.indexer.building.costs.remeasure import (
        carried_items,
        project_items,
        remeasure,
    )
    from polydom.indexer.building.project import Project
    from polydom.indexer.index.facts import facts_of
    from polydom.indexer.index.file.pdx_file import refuse_index
    from polydom.indexer.index.index import Index
    from polydom.indexer.progress_bars import ProgressBars

    from ..reports.index_report import show_costs, warn_if_busy

    refuse_index(output)  # before the measurement, which takes long
    loaded = Index.load(index)
    plan = None if data is None else Project.load(data)
    with prints_to_stderr():
        items = project_items(loaded, plan) if plan else carried_items(loaded)
        remeasure(
            loaded,
            items,
            ProgressBars(),
            files=[*files, *(plan.feature_files if plan else [])],
            repeats=plan.costs.repeats if plan else None,
        ).save(output)
    facts = facts_of(Index.load(output))
    warn_if_busy(facts)
    show_costs(facts, as_json, verbose)
    if not as_json:
        typer.echo(
            f"wrote {output}: the {facts.candidates} feature sets of {index}, "
            f"measured on {len(items)} items; sets that the build dropped stay dropped"
        )
