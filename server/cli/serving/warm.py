"""The command that compiles kernels ahead of time: `polydom warm`."""

import pkgutil
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from ..options import FeatureFiles


def warm(
    indexes: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[INDEX]...", help="Indexes that this machine will serve."
        ),
    ] = None,
    features: FeatureFiles = [],  # noqa: B006  typer reads it, nothing writes it
) -> None:
    """Compile the code that indexes need, on this processor; without INDEX, all code.

    Every command compiles the code that it needs, once. Use this command to prepare an
    image or a machine, so that its server answers as soon as it starts.
    """
    began_s = time.monotonic()
    if indexes:
        from ...runtime.warm_up import open_translator

        for index in indexes:
            open_translator(index, features)
    else:
        _compile_everything()
    typer.echo(f"ready after {time.monotonic() - began_s:.1f} s")


def _compile_everything() -> None:
    from polydom import indexer, models
    from polydom.models.scoring.kernels.cached_njit import DECLARED
    from polydom.models.scoring.kernels.compiling import COMPILING

    for room in (models, indexer):
        for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            if ".kernels." in module.name:
                import_module(module.name)
    COMPILING.tell = None
    with typer.progressbar(DECLARED, label="compiling", file=sys.stderr) as kernels:
        for kernel in kernels:
            kernel.compile_declared()
