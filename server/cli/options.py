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
        help="Also show cost curves, the sets and learners that were tried, and the "
        "choices for each item size.",
    ),
]
CacheFolder = Annotated[
    Path | None,
    typer.Option(
        help="Folder of finished work, for build and select; default: .polydom-cache"
        " in the project file's folder.",
        show_default=False,
    ),
]
FeatureFiles = Annotated[
    list[Path],
    typer.Option(
        "--features",
        metavar="FILE",
        help="Python file with features of your own; may be given several times.",
    ),
]
Tokenizer = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Tokenizer of a network of texts, usually tokenizer.json.",
    ),
]
BudgetMs = Annotated[
    float | None, typer.Option(help="Budget of one item in milliseconds.")
]
Budget = Annotated[
    float | None,
    typer.Option(help="Budget of one item in the index's unit, if that is not time."),
]
# The options for a budget, to be named in messages.
BUDGETS = ("--budget-ms", "--budget")
Exact = Annotated[
    bool,
    typer.Option(
        "--exact",
        help="Evaluate models whole, so that scores are those of whole models; "
        "default: a model stops early if its answer is sure.",
    ),
]
Separator = Annotated[
    str | None, typer.Option(help="Separator of a CSV file; default: detected.")
]
Encoding = Annotated[
    str | None,
    typer.Option(help="Encoding of a CSV file, such as latin-1; default: detected."),
]


class OnError(Enum):
    """The values of `--on-error`: how a command treats an item without an answer."""

    SKIP = "skip"
    STOP = "stop"


OnErrorChoice = Annotated[
    OnError, typer.Option(help="If an item cannot be answered: skip it, or stop.")
]
ItemsFile = Annotated[
    Path,
    typer.Argument(help="Items: a folder, or a .jsonl, .csv, .tsv or .parquet file."),
]
Resume = Annotated[
    bool,
    typer.Option("--resume", help="Continue the same command after an interruption."),
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
