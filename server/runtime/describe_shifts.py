"""Describes for a response how present items differ from those of the build."""

from collections.abc import Sequence
from itertools import pairwise

from ..engine.monitoring.input_sketch import InputSketch, Shift
from ..engine.monitoring.traffic_counts import MOST
from ..schema.facts import InputsFacts, ShiftFacts


def describe_shifts(
    version: str, sketch: InputSketch | None, now_s: float, *, shows_items: bool = False
) -> InputsFacts:
    """Return the facts that `GET /v1/index/inputs` shows.

    `sketch` is None if nothing is compared. If `shows_items` is False, words of columns
    are left out.
    """
    if sketch is None:
        return InputsFacts(version, 0, 0, [], None)
    answers = sketch.answers(now_s)
    return InputsFacts(
        version,
        sketch.sampled(now_s),
        sketch.inputs.items,
        [_facts_of(one, shows_items) for one in sketch.shifts(now_s)[:MOST]],
        # classes are no secret: each answer shows some
        _facts_of(answers, shows_words=True) if answers.items else None,
        sketch.unseen_words(now_s),
        sketch.inputs.unseen_words,
    )


def _facts_of(shift: Shift, shows_words: bool) -> ShiftFacts:
    return ShiftFacts(
        shift.name,
        shift.items,
        shift.psi,
        shift.chance,
        name_bins(shift, shows_words=shows_words),
        shift.built,
        shift.now,
    )


def name_bins(shift: Shift, *, shows_words: bool) -> list[str]:
    """Return a name for each bin, such as "up to 3.5"; numbers have three digits."""
    if shift.edges:
        ends = [f"{edge:.3g}" for edge in shift.edges]
        between = [f"{low} to {high}" for low, high in pairwise(ends)]
        return ["missing", f"up to {ends[0]}", *between, f"above {ends[-1]}"]
    values = [_named(value, shift.words, shows_words) for value in shift.values]
    return ["missing or unknown" if shift.words else "missing", *values, "others"]


def _named(value: float, words: Sequence[str] | None, shows_words: bool) -> str:
    if words is None:
        return f"{value:.3g}"
    known = value.is_integer() and 0 <= value < len(words)
    return words[int(value)] if shows_words and known else f"word {value:.0f}"
