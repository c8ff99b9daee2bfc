"""The command that serves indexes over HTTP: `polydom serve`."""

import math
from pathlib import Path
from typing import Annotated

import typer

from polydom.features.errors import BadInput

from ...settings import Settings, Shown
from ..options import FeatureFiles
from ..process import collect_as_usual
from .settings_sources import FILE_VARIABLE, read_settings

DEFAULTS = Settings()


# The options for the indexes and the address,
SettingsFile = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        metavar="FILE.toml",
        envvar=FILE_VARIABLE,
        show_envvar=False,
        is_eager=True,
        callback=read_settings,
        help="TOML file of options, such as `budget_ms = 20`. Variables such as "
        "POLYDOM_BUDGET_MS override the file, and options on the command line "
        "override both.",
    ),
]
Indexes = Annotated[
    list[str],
    typer.Argument(
        metavar="[NAME=]INDEX.pdx...",
        help="Files that `polydom build` wrote. The first answers requests that name"
        " no model. A model's name is its file's name without .pdx, or NAME. A "
        "folder stands for the only index in it.",
    ),
]
FetchFiles = Annotated[
    list[Path],
    typer.Option(
        "--fetches",
        metavar="FILE",
        help="TOML or Python file that says how to fetch columns that a record lacks, "
        "or vectors of texts or images; may be given several times.",
    ),
]
Host = Annotated[str, typer.Option(help="Address to listen on.")]
Port = Annotated[int, typer.Option(help="Port; 0 for any free port.")]
GrpcPort = Annotated[
    int | None, typer.Option(help="Port for gRPC, too; 0 for any free port.")
]
# the options for budgets and costs,
DefaultMs = Annotated[
    float, typer.Option(help="Budget in milliseconds of a request that names none.")
]
LargestMs = Annotated[
    float,
    typer.Option(
        help="Largest budget in milliseconds; larger budgets of requests are cut to it."
    ),
]
Rescale = Annotated[
    bool, typer.Option(help="At the start, rescale the index's costs to this machine.")
]
Correct = Annotated[
    bool,
    typer.Option(help="While serving, correct costs if the machine becomes slower."),
]
InputDrift = Annotated[
    bool,
    typer.Option(help="Compare a sample of the items with those of the build."),
]
Audit = Annotated[
    float,
    typer.Option(
        min=0.0,
        max=1.0,
        help="Share of early exits that are also computed whole, to compare the "
        "answers.",
    ),
]
MeanPrice = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        help="Price that fetches may cost per request in the mean; default: no limit.",
        show_default=False,
    ),
]
# the options for limits,
BodyLimit = Annotated[
    int, typer.Option(min=1, help="Maximum bytes of a request's body.")
]
IntakeLimit = Annotated[
    int, typer.Option(min=1, help="Maximum bytes of all bodies in memory at a time.")
]
ImageLimit = Annotated[
    int, typer.Option(min=1, help="Maximum bytes of a decoded image.")
]
QueueLimit = Annotated[
    int,
    typer.Option(
        min=1, help="Maximum number of requests that wait for the computing thread."
    ),
]
# the options for processes and files,
Workers = Annotated[
    int,
    typer.Option(min=1, help="Number of processes that answer; each uses one core."),
]
Watched = Annotated[
    bool, typer.Option("--watch", help="Reload an index when its file is replaced.")
]
Candidates = Annotated[
    list[str],
    typer.Option(
        "--candidate",
        metavar="[NAME=]INDEX.pdx",
        help="New index to try beside the served index of a model, by default of the "
        "first; the file may appear later. May be given once for each model.",
    ),
]
GateFile = Annotated[
    Path | None,
    typer.Option(
        "--gate",
        metavar="ITEMS",
        help="Recent labelled items, as for `polydom evaluate`: a new index is refused "
        "if it answers them worse than the served one.",
    ),
]
GateLabel = Annotated[
    str, typer.Option(help="Column or key of --gate with the labels.")
]
AllowChanges = Annotated[
    bool,
    typer.Option(
        "--allow-changes",
        help="Let a reload change what callers rely on: the kind of items, the unit of "
        "budgets, labels and columns.",
    ),
]
LeaveS = Annotated[
    float,
    typer.Option(
        help="When stopped, seconds in which the server is not ready but still answers."
    ),
]
Page = Annotated[
    bool,
    typer.Option(
        help="Serve a page at / that shows what budgets buy and what happens now."
    ),
]
Samples = Annotated[
    bool | None,
    typer.Option(
        "--samples/--no-samples",
        help="Serve the few training items that an index carries; default: only "
        "if requests need a token, or if only this machine can connect.",
        show_default=False,
    ),
]
LogText = Annotated[
    str, typer.Option(help="Format of the log: text, or json with one object per line.")
]
AccessLog = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="File to which a JSON object about each answer and each error is appended;"
        " - for standard output.",
    ),
]
RecordFolder = Annotated[
    Path | None,
    typer.Option(
        "--record",
        metavar="FOLDER",
        help="Folder for answers with their items, which `polydom evaluate --record` "
        "reads.",
    ),
]
RecordShare = Annotated[
    float, typer.Option(help="With --record: share of the answers to record.")
]
RecordMb = Annotated[
    int,
    typer.Option(
        min=1, help="With --record: megabytes of a file before it is compressed."
    ),
]
RecordFiles = Annotated[
    int,
    typer.Option(min=1, help="With --record: number of files that each worker keeps."),
]
Traces = Annotated[
    bool,
    typer.Option(
        help="Make OpenTelemetry spans of requests, as the variables OTEL_... say.",
    ),
]
# and for access control.
TokenFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="File of bearer tokens, one per line; each request needs one of them.",
    ),
]
AdminTokenFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="File of bearer tokens, one per line, that allow reloads and rollouts "
        "over HTTP.",
    ),
]
PemFile = Annotated[Path | None, typer.Option(metavar="FILE", help="PEM, for TLS.")]


def serve(
    indexes: Indexes,
    settings_file: SettingsFile = None,
    features: FeatureFiles = [],  # noqa: B006  typer reads it, nothing writes it
    fetches: FetchFiles = [],  # noqa: B006
    host: Host = "127.0.0.1",
    port: Port = 8000,
    grpc_port: GrpcPort = None,
    budget_ms: DefaultMs = DEFAULTS.budget_s * 1e3,
    max_budget_ms: LargestMs = DEFAULTS.max_budget_s * 1e3,
    rescale: Rescale = DEFAULTS.rescale,
    correct: Correct = DEFAULTS.correct,
    audit: Audit = DEFAULTS.audit,
    input_drift: InputDrift = DEFAULTS.input_drift,
    mean_price: MeanPrice = None,
    body_limit: BodyLimit = DEFAULTS.body_limit,
    intake_limit: IntakeLimit = DEFAULTS.intake_limit,
    image_limit: ImageLimit = DEFAULTS.image_limit,
    queue_limit: QueueLimit = DEFAULTS.queue_limit,
    workers: Workers = 1,
    watch: Watched = False,
    candidate: Candidates = [],  # noqa: B006
    gate: GateFile = None,
    gate_label: GateLabel = "label",
    allow_changes: AllowChanges = False,
    token_file: TokenFile = None,
    admin_token_file: AdminTokenFile = None,
    ssl_certfile: PemFile = None,
    ssl_keyfile: PemFile = None,
    leave_s: LeaveS = 0.0,
    page: Page = True,
    samples: Samples = None,
    log_format: LogText = "text",
    access_log: AccessLog = None,
    record: RecordFolder = None,
    record_share: RecordShare = 1.0,
    record_mb: RecordMb = 64,
    record_files: RecordFiles = 16,
    traces: Traces = False,
) -> None:
    """Serve indexes over HTTP, and answer each request within its budget.

    The server prints its address when it is ready to listen. A page there shows what
    budgets buy, and /docs describes every route. SIGHUP makes it reload its files.
    """
    from ...answer_log.answer_log import LogOptions
    from ...answer_log.log_file import STANDARD_OUTPUT
    from ...app import create_app
    from ...evaluation.gate import EvaluationGate
    from ...http.bearer_tokens import Access
    from ...ops.file_watch import Watch
    from ...ops.logs import set_up_logs
    from ...ops.server import ServeOptions, free_port, listen
    from ...ops.workers import run_workers
    from ...runtime.model_names import name_candidates, name_files
    from ...settings import GrpcAt

    _refuse_budget("--budget-ms", budget_ms)
    _refuse_budget("--max-budget-ms", max_budget_ms)
    settings = Settings(
        budget_s=budget_ms / 1e3,
        max_budget_s=max_budget_ms / 1e3,
        body_limit=body_limit,
        intake_limit=intake_limit,
        image_limit=image_limit,
        queue_limit=queue_limit,
        correct=correct,
        rescale=rescale,
        audit=audit,
        input_drift=input_drift,
        mean_price=mean_price,
        allow_changes=allow_changes,
        samples=who_sees_samples(samples, host, token_file),
    )
    if not 0 <= leave_s < math.inf:
        raise BadInput(f"--leave-s {leave_s:g}: a finite number, 0 or more, is needed")
    written = LogOptions(
        access_log, record, record_share, record_mb << 20, record_files
    )
    files = name_files(indexes)
    candidates = name_candidates(candidate, files)
    options = ServeOptions(
        Watch(files, candidates) if watch else None, leave_s, ssl_certfile, ssl_keyfile
    )
    access = Access.read(token_file, admin_token_file)
    grpc_at = compared = None
    if gate is not None:
        if not gate.exists():
            raise BadInput(f"--gate {gate}: there is no such file or folder")
        compared = EvaluationGate(
            gate,
            label=gate_label,
            features=features,
            budget_s=settings.budget_s,
        )
    if grpc_port is not None:
        free = free_port(host, grpc_port)
        grpc_at = GrpcAt(host, free, ssl_certfile, ssl_keyfile)
    application = create_app(
        files,
        features=features,
        fetches=fetches,
        settings=settings,
        access=access,
        grpc_at=grpc_at,
        page=page,
        log=written if access_log or record else None,
        traces=traces,
        candidates=candidates,
        gate=compared,
    )
    collect_as_usual()
    scheme = "https" if ssl_certfile else "http"
    with listen(host, port) as listener:
        set_up_logs(log_format)
        address = f"{scheme}://{host}:{listener.getsockname()[1]}"
        lines_only = access_log == STANDARD_OUTPUT
        typer.echo(f"serving {', '.join(files)} at {address}", err=lines_only)
        if grpc_at is not None:
            said = f"serving gRPC at {host}:{grpc_at.port}"
            typer.echo(said, err=lines_only)
        run_workers(application, listener, options, workers)


def who_sees_samples(wanted: bool | None, host: str, token_file: Path | None) -> Shown:
    """Return the callers that may see training items: "everybody", "here" or "nobody".

    "here" means callers on this machine. `wanted` is the operator's choice: True for
    everybody, False for nobody. If it is None, the result is "everybody" if the server
    requires tokens, "here" if it listens on this machine only, and "nobody" otherwise.
    """
    from ...http.headers import is_this_machine

    if wanted is not None:
        return "everybody" if wanted else "nobody"
    if token_file is not None:
        return "everybody"  # every caller who is let in has a token
    return "here" if is_this_machine(host) else "nobody"


def _refuse_budget(option: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise BadInput(f"{option} {value:g}: a finite number above 0 is needed")
