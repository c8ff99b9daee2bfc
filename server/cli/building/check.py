"""The command that checks a project's data without training: `polydom check`."""

import msgspec
import typer

from polydom.features.errors import printable

from ..options import AsJson, ProjectFile
from ..process import prints_to_stderr


def check(project: ProjectFile, as_json: AsJson = False) -> None:
    """Read the data of a project, and show how they are understood, without training.

    A line for each column of a table says what it holds, how many cells are empty and
    what the empty cells looked like. Warnings name possible mistakes in the data, and
    the lines of the project that would correct them.
    """
    from polydom.indexer.building.data.check_data import check_data
    from polydom.indexer.building.project import Project
    from polydom.indexer.progress_bars import ProgressBars

    with prints_to_stderr():
        found = check_data(Project.load(project), ProgressBars())
    if as_json:
        typer.echo(msgspec.json.encode(found.facts()).decode())
        return
    for line in found.lines():
        typer.echo(printable(line))
