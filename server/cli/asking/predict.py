"""The command that classifies files without a server: `polydom predict`."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from msgspec import UNSET

from polydom.features.errors import BadFeature, BadItem, PolydomError, printable
from polydom.features.figures import show_accuracy, show_ms, show_number
from polydom.features.items import Kind
from polydom.features.wording import describe_decode_error
from polydom.indexer.index.quality import name_quality

from ...schema.wire import Answer, Reason, Terms
from ..options import (
    BUDGETS,
    AsJson,
    Budget,
    BudgetMs,
    Exact,
    FeatureFiles,
    IndexFile,
)

if TYPE_CHECKING:
    from polydom.indexer.index.package import Package

    from ...runtime.translator import Translator

STDIN = Path("-")
BadFile = BadItem | BadFeature
IN_WORDS: dict[Reason, str] = {
    "budget": "a larger budget would buy a better model",
    "waited": "others were first, which left too little for a better model",
    "pressure": "others waited, so a cheaper model answered",
    "missing": "columns that are missing would buy a better model",
    "infeasible": "the budget buys nothing that was asked for",
    "overrun": "a feature took longer than planned, so the work was cut short",
    "sure": "what was computed first was enough to be sure",
    "feature_failed": "a feature failed, and the best set without it answered",
    "late_fetch": "columns that did not come in time would buy a better model",
}


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
    exact: Exact = False,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Score from which the answer is the index's positive class, of two."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Classify files in this process, each within the budget.

    With --json, each answer is one line of JSON, in the server's format. If a file
    cannot be answered, its error goes to standard error (as JSON if --json is given),
    the other files are still answered, and the exit code is 1.
    """
    from ...engine.budget import read_amount
    from ...runtime.warm_up import open_translator

    failed = False
    translator = open_translator(index, features)
    # raises BadInput if the budget is invalid
    read_amount(translator.unit, budget_ms, budget, BUDGETS)
    package = translator.planner.package
    terms = Terms(budget_ms=budget_ms, budget=budget, exact=exact, threshold=threshold)
    for path, answer in answer_files(translator, items, terms):
        if isinstance(answer, PolydomError):
            failed = True
            facts = {"file": str(path), "error": str(answer), "code": answer.code}
            words = f"polydom: {path}: {answer}"
            typer.echo(json.dumps(facts) if as_json else words, err=True)
        elif as_json:
            typer.echo(json.dumps({"item": str(path), **msgspec.to_builtins(answer)}))
        else:
            typer.echo(line_of(path, answer, package))
    if failed:
        raise typer.Exit(1)


def answer_files(
    translator: "Translator", items: Sequence[Path], terms: Terms
) -> Iterator[tuple[Path, Answer | BadFile]]:
    """Answer each file, and yield (file, answer).

    The budget of a file starts after the file is read. If a file is not an item of the
    index's kind, or if its features cannot be computed, the pair has a BadFile in place
    of an answer.
    """
    from ...runtime.translator import AtOnce

    at_once = AtOnce(translator)
    for path in items:
        try:
            payload = read_payload(path, translator.planner.package.kind)
            yield path, at_once.answer(terms, payload)
        except (BadItem, BadFeature) as error:
            yield path, error


def read_payload(path: Path, kind: Kind) -> Any:
    """Read an item of the given kind from a file; the path `-` means standard input."""
    from ...offline_scoring.item_rows import decode_content

    try:
        data = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
    except IsADirectoryError as error:
        raise BadItem(
            "this is a folder; name its files, or use `polydom score`"
        ) from error
    except OSError as error:
        raise BadItem(error.strerror or str(error)) from error
    try:
        return decode_content(data, kind)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError) as error:
        needed = "a text in UTF-8" if kind == "text" else "a JSON object of columns"
        said = describe_decode_error(error, document=data)
        raise BadItem(f"{said}; {needed} is needed") from error


def _words_of(answer: Answer, package: "Package") -> str:
    if answer.value is not UNSET and answer.interval is not UNSET:
        low, high = map(show_number, answer.interval)
        share = f"{100 * (package.coverage or 0):.3g}"
        return (
            f"value {show_number(answer.value)} "
            f"(between {low} and {high} in {share} of 100 cases)"
        )
    return f"{printable(answer.label or '')} ({_score_of(answer)})"


def _score_of(answer: Answer) -> str:
    """Return the label's score; without one, as in older indexes, its bounds."""
    label = answer.label or ""
    if answer.scores is not None:
        return f"{answer.scores[label]:.3f}"
    if answer.score_bounds is not UNSET:
        return "{:.3f} to {:.3f}".format(*answer.score_bounds[label])
    return "no score"


def _expected(answer: Answer, package: "Package") -> str:
    name = name_quality(package.measure)
    words = f"expected {name} {show_accuracy(answer.expected_quality)}"
    accuracy = answer.expected_accuracy
    if package.measure == "accuracy" or accuracy is None:
        return words
    return f"{words}, accuracy {show_accuracy(accuracy)}"


def line_of(path: Path, answer: Answer, package: "Package") -> str:
    """Return an answer as a line: class, features, quality, time and reasons."""
    features = printable(", ".join(answer.features)) or "no feature (the prior)"
    took = show_ms(answer.actual_us / 1e3)
    if isinstance(answer.predicted_us, float):
        took += f" of {show_ms(answer.predicted_us / 1e3)} predicted"
    why = IN_WORDS[answer.reason] if answer.reason else ""
    notes = [why, "" if answer.budget_met else "budget missed"]
    if answer.base_models is not UNSET:
        notes.append(f"{answer.base_models_used} of {answer.base_models} base models")
    if answer.unknown is not UNSET:
        notes.append(f"never seen before: the values of {', '.join(answer.unknown)}")
    if answer.missing is not UNSET:
        notes.append(f"{answer.missing} columns of the model are missing")
    if answer.best_next is not UNSET:
        named = printable(", ".join(answer.best_next.columns))
        quality = show_accuracy(answer.best_next.expected_quality)
        notes.append(f"most would help: {named} ({quality})")
    return (
        f"{path}: {_words_of(answer, package)} by {features}; "
        f"{_expected(answer, package)}; {took}"
        + "".join(f"; {note}" for note in notes if note)
    )
