"""The command that evaluates an index on labelled items: `polydom evaluate`."""

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec
import typer

from polydom.features.errors import BadInput
from polydom.features.readers.folders import readable

from ..options import AsJson, Encoding, Exact, FeatureFiles, IndexFile, Separator
from ..process import prints_to_stderr

if TYPE_CHECKING:
    from ...evaluation.recorded_answers import RecordedAnswers
    from ...evaluation.results import AnsweredEvaluation, Evaluation
    from ...evaluation.run import EvaluationRun, Server

UNBROKEN = 500  # width in columns for a file or pipe, so that lines are not wrapped


# The options for the items,
TestItems = Annotated[
    Path | None,
    typer.Argument(
        metavar="[TEST]",
        help="Labelled items: a folder with one for each class, or a .jsonl, .csv, "
        ".tsv or .parquet file. Not with --record.",
        show_default=False,
    ),
]
RecordFolder = Annotated[
    Path | None,
    typer.Option(
        "--record",
        metavar="FOLDER",
        help="Evaluate what a server answered, as `polydom serve --record FOLDER` "
        "wrote it. With --budgets, INDEX also answers these items again.",
    ),
]
Labels = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="With --record: .csv, .tsv, .jsonl or .parquet file of labels, with the "
        "ids of the requests.",
    ),
]
IdName = Annotated[
    str, typer.Option("--id", help="With --record: column of FILE with the ids.")
]
LabelName = Annotated[
    str, typer.Option(help="Column or key with the labels; folders need none.")
]
Limit = Annotated[
    int | None,
    typer.Option(min=1, help="Number of items to draw from TEST; default: all."),
]
Seed = Annotated[
    int, typer.Option(min=0, help="Seed of the drawn items and of their order.")
]
Repeat = Annotated[
    int, typer.Option(min=1, help="Number of predictions for each item.")
]
# the options for the predictors,
Budgets = Annotated[
    str | None,
    typer.Option(
        metavar="B,B,...",
        show_default=False,
        help="Budgets of one item, separated by commas: milliseconds, or amounts"
        " in the index's unit if that is not time.",
    ),
]
Against = Annotated[
    list[str],
    typer.Option(
        metavar="FILE.py:FUNCTION",
        help="Compare with an estimator of yours, too: FUNCTION() returns it fitted,"
        " and its predict takes a list of texts, dicts or images' bytes. May be"
        " given several times.",
    ),
]
Url = Annotated[
    str | None,
    typer.Option(
        help="Evaluate the server at this address, such as http://127.0.0.1:8000, "
        "instead of predicting in this process."
    ),
]
ModelName = Annotated[
    str | None,
    typer.Option(help="With --url or --record: name of the model on the server."),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="With --url: file that holds the bearer token."),
]
FetchFiles = Annotated[
    list[Path],
    typer.Option(
        "--fetches",
        metavar="FILE",
        help="Of texts and images: a .py or .toml file with the index's fetches, which "
        "are asked for the vector of each item. May be given several times.",
    ),
]
SimulateFetches = Annotated[
    bool,
    typer.Option(
        "--simulate-fetches",
        help="Let what fetches bring come as late as in the index's build, or not at "
        "all, without asking any source.",
    ),
]
MaxPrice = Annotated[
    float | None,
    typer.Option(
        min=0,
        help="With --simulate-fetches: what the fetches of one record may cost.",
    ),
]
# and the options for the output.
Chosen = Annotated[
    float | None,
    typer.Option(
        metavar="B",
        help="Budget whose confusion matrix is shown; default: the largest.",
    ),
]
Html = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Also write tables and pictures to this HTML page."
    ),
]


def evaluate(
    index: IndexFile,
    test: TestItems = None,
    budgets: Budgets = None,
    features: FeatureFiles = [],  # noqa: B006  typer reads it, nothing writes it
    record: RecordFolder = None,
    labels: Labels = None,
    id_name: IdName = "id",
    label: LabelName = "label",
    separator: Separator = None,
    encoding: Encoding = None,
    limit: Limit = None,
    seed: Seed = 0,
    repeat: Repeat = 1,
    exact: Exact = False,
    fetches: FetchFiles = [],  # noqa: B006
    simulate_fetches: SimulateFetches = False,
    max_price: MaxPrice = None,
    against: Against = [],  # noqa: B006
    url: Url = None,
    model: ModelName = None,
    token_file: TokenFile = None,
    confusion: Chosen = None,
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Measure the quality of an index on labelled items, within each budget.

    The index is compared with your own estimators and with three baselines: its prior,
    its cheapest plan and its largest plan, which have no time limit. All of them
    predict the first item, then the next item, and so on. After Ctrl-C, the results so
    far are shown. With --record, what a server answered is evaluated.
    """
    from polydom.indexer.progress_bars import ProgressBars

    from ...evaluation.run import EvaluationRun
    from ...page.report import refuse_report, write_report

    if (record is None) == (test is None) or (record is None) != (labels is None):
        raise typer.BadParameter("give TEST and --budgets, or --record and --labels")
    if budgets is None and record is None:
        raise typer.BadParameter("give some, such as 1,2,5,20", param_hint="--budgets")
    if budgets is None and (against or url or html or confusion is not None):
        raise typer.BadParameter(
            "--against, --url, --html and --confusion need --budgets, too"
        )
    amounts = [] if budgets is None else read_budgets(budgets)
    chosen = amounts[-1] if amounts and confusion is None else confusion
    if chosen is not None and chosen not in amounts:
        raise BadInput(f"--confusion {chosen:g} is none of --budgets {budgets}")
    of_server = model if url is not None or record is None else None
    server = read_server(url, of_server, token_file)
    if html is not None:
        refuse_report(html)
    answered = recorded = None
    if record is not None and labels is not None:
        columns = Columns(id_name, label, separator, encoding)
        recorded, answered = _read_answered(index, record, labels, columns, model)
    if chosen is None:
        _report(None, answered, as_json=as_json)
        return
    read = test or record
    assert read is not None
    with prints_to_stderr():
        run = EvaluationRun(
            index=index,
            test=read,
            amounts=amounts,
            features=features,
            server=server,
            against=against,
            label=label,
            separator=separator,
            encoding=encoding,
            limit=limit,
            seed=seed,
            repeat=repeat,
            exact=exact,
            fetches=fetches,
            simulate_fetches=simulate_fetches,
            max_price=max_price,
            recorded=recorded,
            progress=ProgressBars(threaded=False),
        )
        _say(run.remarks())
        complete = _carry_out(run)
        found = run.results(chosen)
    _say(run.remarks_on(found))
    if html is not None:
        names = readable(index.name), readable(read.name)
        title = f"{names[0]} on {found.items:,} items of {names[1]}"
        write_report(html, "evaluation_report", title, found)
    _report(found, answered, as_json=as_json)
    if not complete:
        raise typer.Exit(130)


class Columns(NamedTuple):
    """How a file of labels is written: as the arguments of `read_labels`."""

    id: str
    label: str
    separator: str | None
    encoding: str | None


def _read_answered(
    index: Path, record: Path, labels: Path, columns: Columns, model: str | None
) -> "tuple[RecordedAnswers, AnsweredEvaluation]":
    """Return the recorded answers with labels, and how good they are."""
    from ...engine.loading import load_index
    from ...evaluation.recorded_answers import read_labels, read_recorded
    from ...evaluation.recorded_results import evaluate_recorded

    recorded = read_recorded(record, read_labels(labels, *columns), model)
    _say(recorded.remarks())
    answered = evaluate_recorded(recorded, *load_index(index), record, labels)
    return recorded, answered


def _carry_out(run: "EvaluationRun") -> bool:
    """Run the evaluation; return False if Ctrl-C ended it after some of the items."""
    try:
        with run:
            run.carry_out()
    except KeyboardInterrupt:
        done, total = len(run.comparison.trials), run.comparison.total
        _say([f"\ninterrupted after {done:,} of {total:,} trials"])
        if not done:
            raise typer.Exit(130) from None
        return False
    return True


def read_server(
    url: str | None, model: str | None, token_file: Path | None
) -> "Server | None":
    """Return the server to evaluate, with the first token of the file.

    Return None without a `url`.
    """
    from ...evaluation.run import Server

    if url is not None:
        token = None if token_file is None else _first_token(token_file)
        return Server(url=url, model=model, token=token)
    if model or token_file:
        option = "--model" if model else "--token-file"
        raise BadInput(f"{option} is for a server: give --url, too")
    return None


def _first_token(path: Path) -> str:
    from ...http.bearer_tokens import read_tokens

    try:
        return read_tokens(path)[0]
    except BadInput as error:
        raise BadInput(f"--token-file {error}") from error


def read_budgets(text: str) -> list[float]:
    """Return the budgets in a text such as `1,2,5,20`, sorted, without duplicates."""
    try:
        amounts = [float(part) for part in text.split(",")]
    except ValueError:
        amounts = []
    if not amounts or not all(0 < amount < math.inf for amount in amounts):
        raise typer.BadParameter(
            f"{text!r} came; finite numbers above 0 with commas between them are "
            "needed, such as 1,2,5,20",
            param_hint="--budgets",
        )
    return sorted(set(amounts))


def _say(remarks: Iterable[str]) -> None:
    for remark in remarks:
        typer.echo(remark, err=True)


def _report(
    found: "Evaluation | None", answered: "AnsweredEvaluation | None", *, as_json: bool
) -> None:
    """Print the results of an evaluation, and of recorded answers."""
    from rich.console import Console

    from ..reports.answered_report import show_answered
    from ..reports.evaluation_report import show

    if as_json:
        told = {} if found is None else msgspec.to_builtins(found)
        if answered is not None:
            told["answered"] = msgspec.to_builtins(answered)
        typer.echo(json.dumps(told))
        return
    console = Console()
    if not console.is_terminal:
        console.width = UNBROKEN
    if answered is not None:
        show_answered(answered, console)
    if found is not None:
        show(found, console)
