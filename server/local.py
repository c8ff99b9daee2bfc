"""Answers in this process: the server's engine without a server."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from ..features.errors import BadIndexFile, BadItem
from ..features.items import Kind
from ..indexer.index import Index
from .desk import Desk, Settings
from .engine import Caller, Engine
from .wire import Answer, Ask, Record

STDIN = Path("-")


def answer_files(
    index_path: Path,
    items: Sequence[Path],
    features: Sequence[Path],
    budget_ms: float | None,
    budget: float | None,
) -> Iterator[tuple[Path, Answer]]:
    """Classify files one after the other; each budget starts when its file is read.

    Raises
    ------
    BadItem
        If a file cannot be read as an item of the index's kind.
    BadIndexFile, BadFeature, BadInput
        As `create_app` and `Desk.question`.
    """
    index = Index.load(index_path)
    if index.package is None:
        raise BadIndexFile(f"{index_path}: candidates without models")
    engine = Engine(index, index.package.extractor(features))
    desk = Desk(engine, Settings())
    desk.warm_up()
    for path in items:
        ask = read_ask(path, index.package.kind)
        ask.budget_ms, ask.budget = budget_ms, budget
        arrived_s = engine.now()
        question = desk.question(ask, arrived_s, Caller())
        outcome = engine.answer(question)
        yield path, desk.answer(question, outcome, arrived_s, outcome.started_s)


def read_ask(path: Path, kind: Kind) -> Ask:
    """Read a file, or standard input where it is called -, as an item of a kind."""
    try:
        data = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
    except OSError as error:
        raise BadItem(f"{path}: {error.strerror}") from error
    try:
        if kind == "image":
            return Ask(image_base64=data)
        if kind == "text":
            return Ask(text=data.decode())
        return Ask(record=msgspec.json.decode(data, type=Record))
    except (UnicodeDecodeError, msgspec.DecodeError) as error:
        raise BadItem(f"{path} is no {kind}: {error}") from error


def line_of(path: Path, answer: Answer) -> str:
    """One line for people: the answer, and what it took."""
    features = ", ".join(answer.features) or "no features (the prior)"
    took = f"{answer.actual_us:,.0f} us"
    if isinstance(answer.predicted_us, float):
        took += f" of {answer.predicted_us:,.0f} predicted"
    notes = [answer.reason or "", "" if answer.budget_met else "budget missed"]
    return (
        f"{path}: {answer.label} ({answer.scores[answer.label]:.3f}) by {features}; "
        f"expected accuracy {answer.expected_accuracy:.4f}; {took}"
        + "".join(f"; {note}" for note in notes if note)
    )
