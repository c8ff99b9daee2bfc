"""The errors by their codes: how they are answered, and what to do."""

from collections.abc import Iterator
from importlib import import_module

from polydom.features.errors import PolydomError
from polydom.server.errors import STATUSES, Status
from tools.generated_parts import table

# Of requests.
ADVICE = {
    "bad_input": "Correct the part that the message names: a term, a column, a tensor.",
    "bad_item": "Send the item's own bytes, all of them, with their content type.",
    "unauthorized": "Send `Authorization: Bearer TOKEN` with a token of the server's "
    "`--token-file`.",
    "not_allowed": "Start the server with `--admin-token-file` and send one of its "
    "tokens.",
    "not_found": "Look for the path in `/docs` of the server.",
    "unknown_model": "Take a name, or a version, of `GET /v1/models`.",
    "unknown_sample": "Take a number below `samples` of `GET /v1/index`, which is 0 "
    "where the operator shows none.",
    "method_not_allowed": "Send one of the methods in the header `Allow`.",
    "receive_timeout": "Send the whole request within 10 s of its first byte.",
    "too_large": "Send a smaller body; send many items to `/v1/batch`, one per line.",
    "unsupported_encoding": "Compress with gzip or deflate; do not compress batches.",
    "bad_feature": "Read the server's log, which has the traceback; correct the "
    'feature if it is your own, or let it fail `"without"`.',
    "reload_failed": "Read the server's log; the old index still answers.",
    "changed_contract": "Build the index with the labels and columns of before, or "
    "reload with `allow_changes=true` once callers are ready.",
    "worse_index": "Build a better index; or start the server without `--gate`.",
    "overloaded": "Wait as long as `Retry-After` says, then ask again; add "
    "workers if this error is frequent.",
    "abandoned": "Nothing: no caller gets this error. Only logs and metrics show it.",
    "internal": "Read the server's log, which has the traceback, and report it.",
    "not_ready": "Ask again once `/readyz` says 200; with several servers, ask "
    "another.",
    "nothing_fits": "Send a larger budget or a smaller `min_quality`, or `prior` or "
    "`cheapest` in `on_infeasible` instead of `error`.",
}
# Those of requests that no class of ours stands for.
OF_FRAMEWORK = {
    "not_found": ("404", "There is no such path."),
    "method_not_allowed": ("405", "The path has no such method."),
    "internal": ("500", "A fault of the server, on whatever route."),
}
# Of commands and Python alone: no request is answered with these.
OFFLINE = {
    "bad_project": "Correct the key or the file that the message names.",
    "bad_fetch": "Correct the key, the column or the file that the message names.",
    "fetch_failed": "Check that the service of the fetch runs, and that its answer has "
    "the documented form; `polydom check-fetches` asks it.",
    "bad_model": "Take a learner of [the list](features.md#learners), or another "
    "estimator that the message lists.",
    "bad_index_file": "Build the index again with this version, or copy the file "
    "again.",
    "cannot_write": "Free some space, or name a folder that you may write to.",
    "no_answer": "Check that the server runs at this address; if the network is slow, "
    "pass a larger `grace_s`.",
    "worker_lost": "Give the build more memory or fewer `workers`, and run the same "
    "command again: finished work is kept.",
    "bad_worker": "Install the same versions on all workers, and check the address "
    "of the cluster.",
    "unfinished": "Run the command that the message names, on the other machine.",
    "lacks_times": "Run `polydom measure PROJECT.toml` on a machine like the serving "
    "machine.",
    "lacks_work": "Run `polydom build PROJECT.toml` on the machine that builds.",
}
FAULT = Status(500, "INTERNAL", (), "A fault of the server.")
HEAD = ("code", "status", "when", "what to do")


def parts() -> dict[str, str]:
    """Tables of errors of requests, of gRPC's statuses, and of all other errors."""
    return {
        "requests": table(HEAD, requests()),
        "grpc": table(("gRPC", "HTTP"), grpc_statuses()),
        "commands": table(("code", "error", "when", "what to do"), offline()),
    }


def known() -> dict[str, type[PolydomError]]:
    """The class of each code: the first of several, from which others are derived."""
    import_module("polydom.server.app")
    import_module("polydom.server.client.aio")
    found: dict[str, type[PolydomError]] = {}
    open_ = PolydomError.__subclasses__()
    while open_:
        error = open_.pop(0)
        found.setdefault(error.code, error)
        open_ += error.__subclasses__()
    return found


def requests() -> Iterator[tuple[str, str, str, str]]:
    """A row for each code that a request may be answered with, by their statuses."""
    classes, rows = known(), []
    for code, advice in ADVICE.items():
        if code in OF_FRAMEWORK:
            number, when = OF_FRAMEWORK[code]
        else:
            error = classes[code]
            (status,) = (s for s in STATUSES if issubclass(error, s.errors))
            number, when = str(status.number), sentence(error)
        rows.append((f"`{code}`", number, when, advice))
    yield from sorted(rows, key=lambda row: row[1])


def grpc_statuses() -> Iterator[tuple[str, str]]:
    """A row for each status of gRPC, with those of HTTP that it stands for."""
    numbers: dict[str, list[str]] = {}
    for status in (*STATUSES, FAULT):
        if status.grpc:
            numbers.setdefault(status.grpc, []).append(str(status.number))
    for name, those in numbers.items():
        yield f"`{name}`", ", ".join(those)


def offline() -> Iterator[tuple[str, str, str, str]]:
    """A row for each other code."""
    classes = known()
    for code, advice in OFFLINE.items():
        error = classes[code]
        yield f"`{code}`", f"`{error.__name__}`", sentence(error), advice


def sentence(error: type[PolydomError]) -> str:
    """First paragraph of an error's docstring."""
    return " ".join((error.__doc__ or "").split("\n\n")[0].split())
