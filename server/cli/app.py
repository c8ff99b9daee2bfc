"""The `polydom` command: its subcommands, in the order in which the help lists them."""

from importlib.metadata import version
from typing import Annotated

import typer

from .asking.evaluate import evaluate
from .asking.inspect import inspect
from .asking.plan import plan
from .asking.predict import predict
from .asking.score import score
from .asking.score_parts import score_parts
from .building.build import build
from .building.check import check
from .building.check_fetches import check_fetches
from .building.features import features
from .building.init import init
from .building.measure import measure
from .building.select import select
from .serving.rollout import rollout
from .serving.serve import serve
from .serving.warm import warm

# A command imports its special dependencies within its function: `serve` must not wait
# for learners, nor `build` for the HTTP framework.
COMMANDS = (
    (init, "init PROJECT.toml"),
    (check, "check PROJECT.toml"),
    (check_fetches, "check-fetches fetches.toml risk.py payments.csv"),
    (build, "build PROJECT.toml -o my.pdx"),
    (select, "select PROJECT.toml --plot race.png"),
    (measure, "measure my.pdx -o here.pdx --data PROJECT.toml"),
    (features, "features --kind image"),
    (serve, "serve my.pdx --budget-ms 20 --port 8000"),
    (rollout, "rollout canary --share 0.05 --admin-token-file admin-tokens"),
    (inspect, "inspect my.pdx --html report.html"),
    (plan, "plan my.pdx --size 120000 --budget-ms 5"),
    (predict, "predict my.pdx cat.jpg --budget-ms 5"),
    (score, "score my.pdx photos/ -o labels.parquet -b 60s"),
    (score_parts, "score-parts my.pdx items.parquet -o out/ --total-cpu 90m"),
    (evaluate, "evaluate my.pdx test.jsonl --budgets 1,2,5,20"),
    (warm, "warm my.pdx"),
)

app = typer.Typer(
    name="polydom",
    help="Answer predictions inside a time budget, with the most accurate model "
    "that fits.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command, example in COMMANDS:
    app.command(epilog=f"Example: polydom {example}")(command)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"polydom {version('polydom')}")
        raise typer.Exit


@app.callback()
def polydom(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help="Print the version.",
        ),
    ] = False,
) -> None:
    """Handle the options that go before a command, such as `--version`."""
