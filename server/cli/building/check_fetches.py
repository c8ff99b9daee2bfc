"""The command that asks fetches for keys of a table: `polydom check-fetches`."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from polydom.features.errors import BadFetch
from polydom.features.outputs import refuse_output
from polydom.features.wording import hint

from ..options import AsJson, Encoding, Separator


def check_fetches(
    files: Annotated[
        list[Path],
        typer.Argument(help="Python and .toml files with fetches, as for serve."),
    ],
    table: Annotated[
        Path,
        typer.Argument(help="Table with the key columns: CSV, JSON Lines or Parquet."),
    ],
    fetch: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this fetch; repeatable."),
    ] = None,
    keys: Annotated[
        int, typer.Option(min=1, max=100_000, help="Rows of the table, drawn.")
    ] = 200,
    times: Annotated[
        Path | None,
        typer.Option(
            metavar="OUT.csv",
            help="Write the arrival times in ms: a column for each fetch, a row for "
            "each row of the table; an empty cell where the fetch never came.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw of rows.")] = 0,
    separator: Separator = None,
    encoding: Encoding = None,
    as_json: AsJson = False,
) -> None:
    """Ask fetches for keys of a table; show how late they come, and what differs.

    Eight rows are asked for at a time, and all fetches at the same moment. For each
    fetch a line says for how many keys values came, nothing was there, the call failed,
    or the call took too long; and the quantiles of the arrival times. For each fetched
    column that the table has, a line says how often its value differs from the table's.
    Exits with 1 if a fetch never came.
    """
    from rich.console import Console

    from polydom.features.fetches import skew
    from polydom.features.fetches.load import load_fetches
    from polydom.features.fetches.timing import is_times, write_times

    from ..reports.fetch_check_report import show_checks

    known = load_fetches(files)
    for name in fetch or ():
        if name not in known:
            where = " and ".join(map(str, files))
            no = "have no" if len(files) > 1 else "has no"
            raise BadFetch(f"{where} {no} fetch {name!r}; {hint(name, [*known])}")
    chosen = [known[name] for name in dict.fromkeys(fetch or known)]
    if times is not None:
        read, example = (*files, table), "fetches.times.csv"
        refuse_output(
            times, "times", is_times, read=read, example=example, option="--times"
        )
    rows, dates = skew.read_rows(table, keys, seed, separator, encoding)
    checks, drawn = skew.check_fetches(chosen, rows, dates)
    if times is not None:
        write_times(times, [one.name for one in chosen], drawn)
    if as_json:
        typer.echo(msgspec.json.encode({"fetches": checks}).decode())
    else:
        show_checks(checks, Console())
    if any(one.came + one.empty == 0 for one in checks):
        raise typer.Exit(1)
