"""Options that several of the online commands have."""

from pathlib import Path
from typing import Annotated

import typer

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
Exact = Annotated[
    bool,
    typer.Option(
        "--exact",
        help="Evaluate models whole, so that every answer has its scores; else a model "
        "stops where it is sure.",
    ),
]
Budget = Annotated[
    float | None,
    typer.Option(help="What one item may cost, for an index that counts no time."),
]
# By what names budgets are given to the commands.
BUDGETS = ("--budget-ms", "--budget")
Separator = Annotated[
    str | None, typer.Option(help="Between a CSV file's cells; else it is found.")
]
Encoding = Annotated[
    str | None, typer.Option(help="Of a CSV file, as latin-1; else it is found.")
]
