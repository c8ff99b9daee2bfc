"""The online commands: `polydom serve`, `polydom plan`, `polydom predict`."""

import json
import math
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polydom.features.errors import BadInput, PolydomError
from polydom.features.items import SIZE_NAMES
from polydom.features.sizes import Size, read_size
from polydom.indexer.commands.app import AsJson, IndexFile

if TYPE_CHECKING:
    from polydom.indexer.index.index import Index

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


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"polydom {version('polydom')}")
        raise typer.Exit


def polydom(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help="Say which version this is.",
        ),
    ] = False,
) -> None:
    """Take the options that go before a command."""


# Options of `polydom serve`: where it answers,
Indexes = Annotated[
    list[str],
    typer.Argument(
        metavar="[NAME=]INDEX.pdx...",
        help="Files that `polydom build` wrote; the first answers where no model "
        "is named. A file is called as it is without .pdx, or NAME.",
    ),
]
Host = Annotated[str, typer.Option(help="Address to listen at.")]
Port = Annotated[int, typer.Option(help="Port; 0 takes a free one.")]
GrpcPort = Annotated[
    int | None, typer.Option(help="Answer gRPC too, at this port; 0 takes a free one.")
]
# within which budgets and at whose costs,
DefaultMs = Annotated[float, typer.Option(help="Budget of a request that names none.")]
LargestMs = Annotated[float, typer.Option(help="Largest budget that a request gets.")]
Rescale = Annotated[
    bool, typer.Option(help="Make costs those of this machine at the start.")
]
Correct = Annotated[
    bool, typer.Option(help="Follow a machine that turns slower while serving.")
]
Audit = Annotated[
    float,
    typer.Option(
        min=0.0, max=1.0, help="Share of early exits to compute whole and compare."
    ),
]
# by which processes and files,
Workers = Annotated[
    int, typer.Option(min=1, help="Processes that answer; each uses one core.")
]
Watched = Annotated[
    bool, typer.Option("--watch", help="Reload an index when its file is replaced.")
]
LeaveS = Annotated[
    float,
    typer.Option(help="Seconds to say 'not ready' and still answer, when stopped."),
]
LogText = Annotated[str, typer.Option(help="text, or json: one object a line.")]
# and to whom.
TokenFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Bearer tokens to ask for, one a line."),
]
AdminTokenFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Tokens of whoever may reload over HTTP."),
]
PemFile = Annotated[Path | None, typer.Option(metavar="FILE", help="PEM, for TLS.")]


def serve(
    indexes: Indexes,
    features: FeatureFiles = [],  # noqa: B006  typer reads it, nothing writes it
    host: Host = "127.0.0.1",
    port: Port = 8000,
    grpc_port: GrpcPort = None,
    budget_ms: DefaultMs = 50.0,
    max_budget_ms: LargestMs = 1000.0,
    rescale: Rescale = True,
    correct: Correct = True,
    audit: Audit = 0.0,
    workers: Workers = 1,
    watch: Watched = False,
    token_file: TokenFile = None,
    admin_token_file: AdminTokenFile = None,
    ssl_certfile: PemFile = None,
    ssl_keyfile: PemFile = None,
    leave_s: LeaveS = 0.0,
    log_format: LogText = "text",
) -> None:
    """Answer over HTTP, inside each request's budget.

    Prints its address when it listens; /docs there describes every route. Reloads its
    files on SIGHUP.
    """
    from ..app import create_app
    from ..http.tokens import Access
    from ..ops.file_watch import Watch
    from ..ops.logs import set_up_logs
    from ..ops.server import Running, free_port, listen
    from ..ops.workers import run_workers
    from ..runtime.model_names import name_files
    from ..settings import GrpcAt, Settings

    _refuse_budget("--budget-ms", budget_ms)
    _refuse_budget("--max-budget-ms", max_budget_ms)
    settings = Settings(
        budget_s=budget_ms / 1e3,
        max_budget_s=max_budget_ms / 1e3,
        correct=correct,
        rescale=rescale,
        audit=audit,
    )
    if not 0 <= leave_s < math.inf:
        raise BadInput(f"--leave-s {leave_s:g}: a finite number, 0 or more, is needed")
    files = name_files(indexes)
    running = Running(
        Watch(files) if watch else None, leave_s, ssl_certfile, ssl_keyfile
    )
    access = Access.read(token_file, admin_token_file)
    grpc_at = None
    if grpc_port is not None:
        free = free_port(host, grpc_port)
        grpc_at = GrpcAt(host, free, ssl_certfile, ssl_keyfile)
    application = create_app(
        files, features=features, settings=settings, access=access, grpc_at=grpc_at
    )
    scheme = "https" if ssl_certfile else "http"
    with listen(host, port) as listener:
        set_up_logs(log_format)
        address = f"{scheme}://{host}:{listener.getsockname()[1]}"
        typer.echo(f"serving {', '.join(files)} at {address}")
        if grpc_at is not None:
            typer.echo(f"serving gRPC at {host}:{grpc_at.port}")
        run_workers(application, listener, running, workers)


def _refuse_budget(option: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise BadInput(f"{option} {value:g}: a finite number above 0 is needed")


def _size_for(index: "Index", text: str | None) -> Size:
    """Read the size of an item; a record's is 1, and need not be said."""
    if text is not None:
        return _read_size(text)
    package = index.package
    if package is None or package.kind == "record":
        return 1.0
    names = " x ".join(SIZE_NAMES[package.kind][index.pairs])
    raise BadInput(f"say how large the {package.kind} is: --size, in {names}")


def _read_size(text: str) -> Size:
    try:
        numbers = [float(number) for number in text.split("x")]
        return read_size(numbers if len(numbers) > 1 else numbers[0])
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is neither a number nor two with an x between them",
            param_hint="--size",
        ) from None


def plan(
    index: IndexFile,
    size: Annotated[
        str | None,
        typer.Option(
            metavar="N or AxB",
            help="Size of the item: pixels, characters; or width x height, "
            "words x sentences. A record has none.",
        ),
    ] = None,
    budget_ms: BudgetMs = None,
    budget: Budget = None,
    as_json: AsJson = False,
) -> None:
    """Say which feature set a budget buys, and what comes cheaper and dearer."""
    from polydom.indexer.index.index import Index

    from .plan import explain, table_of

    loaded = Index.load(index)
    facts = explain(loaded, _size_for(loaded, size), budget_ms, budget)
    typer.echo(json.dumps(facts) if as_json else table_of(facts))


def predict(
    index: IndexFile,
    items: Annotated[
        list[Path],
        typer.Argument(
            help="Images, texts, or records as JSON; - reads one from stdin."
        ),
    ],
    features: FeatureFiles = [],  # noqa: B006  typer reads it, nothing writes it
    budget_ms: BudgetMs = None,
    budget: Budget = None,
    as_json: AsJson = False,
) -> None:
    """Classify files in this process, each inside the budget.

    With --json there is one line per item, the answer as the server gives it. What is
    wrong with a file goes to standard error, with --json as JSON too; the others are
    answered, and the exit code is 1.
    """
    import msgspec

    from .predict import answer_files, line_of

    failed = False
    for path, answer in answer_files(index, items, features, budget_ms, budget):
        if isinstance(answer, PolydomError):
            failed = True
            facts = {"file": str(path), "error": str(answer), "code": answer.code}
            words = f"polydom: {path}: {answer}"
            typer.echo(json.dumps(facts) if as_json else words, err=True)
        elif as_json:
            typer.echo(json.dumps({"item": str(path), **msgspec.to_builtins(answer)}))
        else:
            typer.echo(line_of(path, answer))
    if failed:
        raise typer.Exit(1)
