"""The command that shows an index as text or as an HTML file: `polydom inspect`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polydom.features.errors import printable
from polydom.features.readers.folders import readable

from ..options import AsJson, IndexFile, Verbose

if TYPE_CHECKING:
    from polydom.indexer.index.facts import Facts
    from polydom.indexer.index.index import Index

Html = Annotated[
    Path | None,
    typer.Option(
        "--html",
        metavar="FILE",
        help="Also write the pictures of the server's page to this HTML file.",
    ),
]


def inspect(
    index: IndexFile,
    verbose: Verbose = False,
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Describe an index: its data, its accuracy, and the features that budgets buy."""
    from polydom.indexer.index.column_facts import column_lines
    from polydom.indexer.index.facts import facts_of
    from polydom.indexer.index.index import Index

    from ..reports.index_report import built_of, show_index

    if html is not None:
        from ...page.report import refuse_report

        refuse_report(html)
    loaded = Index.load(index)
    facts = facts_of(loaded)
    if html is not None:
        _write_html(loaded, facts, index, html)
    show_index(loaded, facts, as_json, verbose)
    for line in [] if as_json else column_lines(built_of(facts).columns):
        typer.echo(printable(line))
    if not (as_json or verbose):
        typer.echo(f"how it came to that: polydom inspect {index} --verbose")


def _write_html(loaded: "Index", facts: "Facts", path: Path, html: Path) -> None:
    from ...engine.loading import package_of
    from ...page.report import write_report
    from ...runtime.describe_index import describe_curves, describe_index
    from ..reports.index_report import summary_lines

    package_of(loaded, path)
    name = readable(path.name)
    described = {
        "name": name,
        "index": describe_index(loaded),
        "curves": describe_curves(loaded),
        "lines": summary_lines(facts),
    }
    write_report(html, "index_report", name, described)
    typer.echo(f"wrote {html}", err=True)
