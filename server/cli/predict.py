"""Answers in this process: the server's planner without a server."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from polydom.features.errors import BadFeature, BadItem, printable
from polydom.features.items import Kind
from polydom.features.wording import describe_decode_error

from ..engine.execution import execute
from ..engine.request import Caller
from ..offline_scoring.sources import decode_content
from ..runtime.translator import Translator
from ..runtime.warm_up import open_translator
from ..schema.predict import Answer, PredictRequest, Reason

STDIN = Path("-")
BadFile = BadItem | BadFeature
IN_WORDS: dict[Reason, str] = {
    "budget": "a larger budget would buy a better model",
    "waited": "others were first, which left too little for a better model",
    "pressure": "others waited, so a cheaper model answered",
    "infeasible": "the budget buys nothing that was asked for",
    "overrun": "a feature took longer than planned, so the work was cut short",
    "sure": "the first features were enough to be sure",
}


def answer_files(
    index_path: Path,
    items: Sequence[Path],
    features: Sequence[Path],
    budget_ms: float | None,
    budget: float | None,
) -> Iterator[tuple[Path, Answer | BadFile]]:
    """Classify files one after the other; each budget starts when its file is read.

    A file that cannot be read as an item of the index's kind, or of which a feature
    cannot be computed, has an error for an answer, and the next one's turn comes.

    Raises
    ------
    BadIndexFile, BadFeature, BadInput
        As `create_app` and `Translator.request`.
    """
    translator = open_translator(index_path, features)
    for path in items:
        try:
            ask = read_request(path, translator.planner.package.kind)
            ask.budget_ms, ask.budget = budget_ms, budget
            yield path, _answer(translator, ask)
        except (BadItem, BadFeature) as error:
            yield path, error


def _answer(translator: Translator, ask: PredictRequest) -> Answer:
    arrived_s = translator.planner.now()
    request = translator.request(ask, translator.item(ask), arrived_s, Caller())
    outcome = execute(translator.planner, request)
    at_once = replace(request, read_s=outcome.started_s)  # there is no queue here
    return translator.answer(at_once, outcome)


def read_request(path: Path, kind: Kind) -> PredictRequest:
    """Read a file, or standard input where it is called -, as an item of a kind."""
    try:
        data = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
    except IsADirectoryError as error:
        raise BadItem(
            "this is a folder; name its files, or use `polydom score`"
        ) from error
    except OSError as error:
        raise BadItem(error.strerror or str(error)) from error
    try:
        field = "image_base64" if kind == "image" else kind
        return PredictRequest(**{field: decode_content(data, kind)})
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError) as error:
        needed = "a text in UTF-8" if kind == "text" else "a JSON object of columns"
        raise BadItem(f"{describe_decode_error(error)}; {needed} is needed") from error


def line_of(path: Path, answer: Answer) -> str:
    """One line for people: the answer, and what it took."""
    features = printable(", ".join(answer.features)) or "no features (the prior)"
    label, took = printable(answer.label), f"{answer.actual_us:,.0f} us"
    if isinstance(answer.predicted_us, float):
        took += f" of {answer.predicted_us:,.0f} predicted"
    why = IN_WORDS[answer.reason] if answer.reason else ""
    notes = [why, "" if answer.budget_met else "budget missed"]
    if answer.unknown is not UNSET:
        notes.append(f"never seen before: the values of {', '.join(answer.unknown)}")
    if answer.missing is not UNSET:
        notes.append(f"{answer.missing} columns are missing")
    return (
        f"{path}: {label} ({answer.scores[answer.label]:.3f}) by {features}; "
        f"expected accuracy {answer.expected_accuracy:.4f}; {took}"
        + "".join(f"; {note}" for note in notes if note)
    )
