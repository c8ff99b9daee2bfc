"""Arguments and options that several commands share, and the parser of budgets."""

import re
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from polydom.features.errors import BadInput

IndexFile = Annotated[Path, typer.Argument(metavar="INDEX", help="A .pdx file.")]
ProjectFile = Annotated[Path, typer.Argument(help="The project file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose",
        "-v",
        help="Also how it was found: cost curves, what was tried, each size's choices.",
    ),
]
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
FeatureFiles = Annotated[
    list[Path],
    typer.Option(
        "--features",
        metavar="FILE",
        help="Python file with features of your own; may be given several times.",
    ),
]
BudgetMs = Annotated[
    float | None, typer.Option(help="Milliseconds that one item may take.")
]
Budget = Annotated[
    float | None,
    typer.Option(help="What one item may cost, for an index that counts no time."),
]
# The options for a budget, to be named in messages.
BUDGETS = ("--budget-ms", "--budget")
Exact = Annotated[
    bool,
    typer.Option(
        "--exact",
        help="Evaluate models whole, so that every answer has its scores; else a model "
        "stops where it is sure.",
    ),
]
Separator = Annotated[
    str | None, typer.Option(help="Between a CSV file's cells; else it is found.")
]
Encoding = Annotated[
    str | None, typer.Option(help="Of a CSV file, as latin-1; else it is found.")
]


class OnError(Enum):
    """The values of `--on-error`: how a command treats an item without an answer."""

    SKIP = "skip"
    STOP = "stop"


OnErrorChoice = Annotated[
    OnError, typer.Option(help="An item that cannot be answered: go on, or not.")
]
ItemsFile = Annotated[
    Path, typer.Argument(help="A folder, or a .jsonl, .csv, .tsv or .parquet file.")
]
Resume = Annotated[
    bool,
    typer.Option("--resume", help="Go on where the same command was interrupted."),
]

SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def read_amount(option: str, text: str, unit: str) -> float:
    """Return the amount in a budget option's text: seconds, or an amount in `unit`.

    If `unit` is "s", the text must be a time such as `60s`; otherwise, a number without
    a unit. Errors name the `option`.
    """
    found = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)(ms|s|m|h)?", text.strip())
    if found is None or (found[2] is not None) != (unit == "s"):
        wanted = "such as 500ms, 60s, 5m or 2h" if unit == "s" else f"in {unit}"
        raise BadInput(f"{option} {text}: a number {wanted} is needed")
    return float(found[1]) * SECONDS.get(found[2] or "", 1.0)
