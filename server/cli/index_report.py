"""An index on a terminal: in plain words first, all of its facts if asked."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import typer

from polydom.features.errors import printable
from polydom.features.figures import show_accuracy, show_cost, show_ms
from polydom.features.sizes import show_size
from polydom.indexer.index.quality import name_quality, task_of

if TYPE_CHECKING:
    from rich.console import Console

    from polydom.indexer.index.index import Index


def show_index(
    index: "Index", facts: dict[str, Any], as_json: bool, verbose: bool
) -> None:
    """Print the facts of an index: as one JSON object, or in words and tables."""
    from rich.console import Console

    from .index_summary import show_summary

    if as_json:
        _print_json(facts)
        return
    show_summary(index, facts, Console())
    if verbose:
        typer.echo()
        show(facts, Console())


def show_costs(facts: dict[str, Any], as_json: bool, verbose: bool) -> None:
    """Print what each feature takes by item size, as `polydom measure` does."""
    from rich.console import Console

    if as_json:
        _print_json(facts)
        return
    write = show_curves if verbose else show_times_of
    write(escaped(facts["build"]["curves"]), Console())


def _print_json(facts: dict[str, Any]) -> None:
    # JSON has no NaN and no infinity: both are written as null
    typer.echo(msgspec.json.encode(facts).decode())


def warn_if_busy(facts: dict[str, Any]) -> None:
    """Say on standard error that costs were measured on a busy machine, if so."""
    measured = facts["build"].get("measured")
    if measured and measured["busy"]:
        typer.echo(f"polydom: {busy_words(measured)}", err=True)


def show(facts: dict[str, Any], console: "Console") -> None:
    """Print all facts as lines and tables, in the papers' words."""
    facts = escaped(facts)
    built = facts.get("build", {})
    low, high = facts["sizes"]
    division = next(name for name in ("breakpoints", "cells") if name in facts)
    console.print(
        f"index {facts['version'][:12] or '(not saved)'}: {facts['candidates']} "
        f"candidates (feature sets kept), {facts[division]} {division} (of sizes, at "
        f"which others are worth it), sizes {show_size(low)} to "
        f"{show_size(high)}"
    )
    if built:
        try:
            for line in build_lines(facts, built):
                console.print(line)
            if built["curves"]:
                show_curves(built["curves"], console)
            show_schedules(facts, console)
        except KeyError as error:  # made by hand, or by an older release
            console.print(f"it says no more of its build: {error!r}")
    console.print("skyline: of all sets, those better than all cheaper ones")
    for at in facts["skylines"]:
        show_skyline(at, console)


def escaped(plain: Any) -> Any:
    """Escape what a terminal or rich would obey in the texts of plain data."""
    from rich.markup import escape

    if isinstance(plain, str):
        return escape(printable(plain))
    if isinstance(plain, dict):
        return {escaped(key): escaped(value) for key, value in plain.items()}
    if isinstance(plain, (list, tuple)):
        return type(plain)(map(escaped, plain))
    return plain


def build_lines(facts: dict[str, Any], built: dict[str, Any]) -> Iterator[str]:
    """Write what a build read, searched, raced and measured."""
    search_lines = [*_search_lines(facts, built)]
    yield (
        f"{facts['kind']} items {_labelled(facts)}; "
        f"{built['items']} used, {len(built['skipped'])} left out; "
        f"learner {built['learner']['name']}"
    )
    yield from _quality_lines(facts, built)
    for name, learned in facts.get("learned", {}).items():
        yield (
            f"  {name} knows {learned['terms']:,} terms, learned from "
            f"{learned['texts']:,} of the texts"
        )
    for name, why in built["skipped"][:5]:
        yield f"  left out {name}: {why}"
    yield from search_lines
    if race := built["selection"]:
        for one in race.get("levels", [race]):  # one for sets of each size, or for all
            yield from _race_lines(one)
    if times := built.get("pace"):
        yield (
            f"{len(times['overhead'])} samples timed, by which a server tells how fast "
            "its machine is"
        )
    if measured := built.get("measured"):
        yield from measured_lines(measured)
    if exits := built.get("exits"):
        yield from _exit_words(exits)
    for remark, count in built["remarks"].items():
        yield f"  in {count} trainings: {remark}"


def _labelled(facts: dict[str, Any]) -> str:
    if facts["task"] == "regression":
        return "labelled with numbers"
    return f"in {len(facts['labels'])} classes"


def best_of(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the best candidate of all skylines."""
    candidates = (c for at in facts["skylines"] for c in at["skyline"])
    return max(candidates, key=lambda one: one["quality"])


def doubt_of(accuracy: float, tested: int) -> str:
    """Write the standard error of an accuracy that was measured on so many items."""
    return show_accuracy((accuracy * (1 - accuracy) / tested) ** 0.5)


def tested_items(built: dict[str, Any]) -> str:
    """Write how many items quality was measured on, and by which models."""
    if built.get("testing", {}).get("folds"):
        return f"{built['tested']:,} items, each by a model that was not trained on it"
    return f"{built['tested']:,} items that were not trained on"


def _quality_lines(facts: dict[str, Any], built: dict[str, Any]) -> Iterator[str]:
    """Write how good the best is, how sure that is, and who was trained on what."""
    found, tested = best_of(facts), built["tested"]
    best, accuracy = found["quality"], found["accuracy"]
    measure = facts["measure"]
    line = (
        f"{name_quality(measure)} is measured on {tested_items(built)}: the best's "
        f"{show_accuracy(best)}"
    )
    if measure == "accuracy":
        line += f" has a standard error of {doubt_of(best, tested)}"
    elif accuracy is not None:
        line += (
            f"; its accuracy is {show_accuracy(accuracy)}, with a standard error of "
            f"{doubt_of(accuracy, tested)}"
        )
    observed = max(built.get("observed", [best]))
    if observed - best >= 0.0005:
        line += (
            f"; on those items it was {show_accuracy(observed)}, of which "
            f"{show_accuracy(observed - best)} is put down to its being the best of "
            "many"
        )
    yield line
    if any(again := built.get("refitted", [])):
        some = "all" if all(again) else f"{sum(again)} of the {len(again)}"
        yield f"{some} models were then trained again, on the items measured on, too"


def _search_lines(facts: dict[str, Any], built: dict[str, Any]) -> Iterator[str]:
    """Write which sets were trained, by which search, and what became of the others."""
    search = built["search"]
    if "sequences" in search:
        noun = "sequence" if search["sequences"] == 1 else "sequences"
        how = f"{search['method']} ({search['sequences']} {noun})"
        left = "never reached"
    else:
        terms = f"alpha {search['alpha']:g}, tolerance {search['tolerance']:g}"
        how, left = f"{search['method']} ({terms})", "not worth it"
        if not search["complete"]:
            left = "left, for want of time"
    yield (
        f"feature sets by {how}: {search['sets']} possible, {search['expanded']} "
        f"trained, {search['sets'] - search['expanded']} {left}, "
        f"{facts['candidates']} kept"
    )
    if "alpha" in search:
        yield (
            "  alpha: no set that was not trained is better by more than that factor; "
            "tolerance: by how much more features may hurt"
        )
    if broken := search.get("violations"):
        yield (
            f"  more features hurt in {broken['count']:,} of {broken['pairs']:,} pairs "
            "of a trained set and one within it (violations): by at most "
            f"{show_accuracy(broken['largest'])}, 95% of them by at most "
            f"{show_accuracy(broken['p95'])}"
        )
    if budgets := built.get("testing", {}).get("budgets"):
        low, high = (show_cost(one, built["unit"]) for one in budgets)
        yield f"  only the best for budgets of {low} to {high}"


def _race_lines(race: dict[str, Any]) -> Iterator[str]:
    """Write who won a race between learners, and the winner's learning curve."""
    sets = ""
    if "low" in race:
        low, high = race["low"], race["high"]
        many = f"{low}" if low == high else f"{low} to {high}"
        sets = f" for sets of {many} feature{'s' if high > 1 else ''}"
    yield (
        f"learner{sets} chosen by {race['strategy']}: {race['learner']}, "
        f"score {race['score']:.4f}, in {race['seconds']:.1f} CPU s; training all "
        f"would have taken about {race['full_s']:.1f}"
    )
    curve = race["curves"][race["learner"]]
    points = [f"{score:.4f} on {amount:,}" for amount, score, _ in curve]
    yield f"  its curve: {', '.join(points)} examples"


def measured_lines(measured: dict[str, Any]) -> Iterator[str]:
    """Write where costs were measured, and what speaks against trusting them."""
    machines = measured.get("machines", [])
    if machines:
        yield f"costs were measured on {where_words(measured)}"
    if len(machines) > 1:
        yield "  these may differ; `polydom measure` measures all on one"
    if measured["busy"]:
        yield busy_words(measured)


def where_words(measured: dict[str, Any] | None) -> str:
    """Say on which machines costs were measured, as far as the build tells."""
    machines = (measured or {}).get("machines")
    if not machines:
        return "the machine they were measured on"
    return " and ".join(
        f"{one['processor']} ({one['cores']} cores, {one['day']})" for one in machines
    )


def busy_words(measured: dict[str, Any]) -> str:
    """Say what others took of the machine while costs were measured, and the cure."""
    others = measured["others"]
    used = ""
    if others is not None:
        used = f" and {others:.1f} of {measured['processors']} processors"
    return (
        "the machine was busy while costs were measured: other programs took "
        f"{measured['lost']:.1%} of the time of what was timed{used}; costs may be too "
        "high. On a quiet machine, `polydom measure` measures them anew"
    )


def _exit_words(exits: dict[str, Any]) -> Iterator[str]:
    """Say what the exits promise, and what they save of features and base models."""
    if lacking := exits.get("lacking"):
        yield f"built without early exits: {lacking}"
    plans = exits.get("plans")
    if not plans:
        return
    promise = (
        f"of each plan with {exits['confidence']:.0%} confidence, by "
        f"{exits['calibrated']} calibration items"
        if exits["confidence"] is not None
        else "of the fitted items; nothing is promised of fresh ones, for want of an "
        "exits.confidence"
    )
    early = sum(plan["early"] for plan in plans) / len(plans)
    saved = sum(plan["saved"] for plan in plans) / len(plans)
    followed = [plan["schedule"] for plan in plans if plan.get("schedule")]
    if not (early or followed):
        yield "no early exits: none would save a plan a twentieth of its cost"
        return
    yield (
        f"plans answer early where at most {exits['alpha']:.2%} of answers change, "
        f"{promise}"
    )
    if early:
        yield (
            f"  after some features {early:.0%} of the time on average, which saves "
            f"{saved:.0%} of the features' cost"
        )
    if followed:
        means = [one["mean"] for one in followed]
        yield (
            f"  {len(followed)} models stop early: after {min(means):.0%} to "
            f"{max(means):.0%} of their base models on average"
        )


def show_schedules(facts: dict[str, Any], console: "Console") -> None:
    """Print how soon each model stops that does, and what that saves."""
    from rich.table import Table

    table = Table(title="models that stop early: base models used, and us", box=None)
    for name in ("mean", "99 %", "of", "mean us", "99 % us", "whole us"):
        table.add_column(name, justify="right")
    table.add_column("features, in computing order")
    times = "mean_us", "p99_us", "whole_us"
    for plan in facts["build"].get("exits", {}).get("plans", []):
        if one := plan.get("schedule"):
            count = one["base_models"]
            table.add_row(
                *(f"{one[key] * count:.1f}" for key in ("mean", "p99")),
                str(count),
                *("-" if us is None else f"{us:.1f}" for us in map(one.get, times)),
                ", ".join(facts["sets"][plan["row"]]),
            )
    if table.row_count:
        console.print(table)


def show_times_of(curves: list[dict[str, Any]], console: "Console") -> None:
    """Print what each feature takes, by item size."""
    from rich.table import Table

    table = Table(
        title="what features and the work they share take, by item size", box=None
    )
    table.add_column("feature or shared work", no_wrap=True)
    for size, *_ in curves[0]["points"]:
        table.add_column(rounded(size), justify="right", no_wrap=True)
    for curve in curves:
        times = [show_ms(points[-1] * 1e3) for points in curve["points"]]
        table.add_row(str(curve["name"]), *times)
    console.print(table)


def show_curves(curves: list[dict[str, Any]], console: "Console") -> None:
    """Print cost curves: the polynomial, and measured against fitted by size."""
    from rich.table import Table

    table = Table(
        title="cost curves, us by item size: measured median / high quantile / fitted",
        box=None,
    )
    table.add_column("feature or step", no_wrap=True)
    for size, *_ in curves[0]["points"]:
        table.add_column(rounded(size), justify="right", no_wrap=True)
    table.add_column("covered", justify="right")
    table.add_column("degree", justify="right")
    for curve in curves:
        coefficients = np.trim_zeros(np.array(curve["coefficients"]), "b")
        table.add_row(
            str(curve["name"]),
            *(
                "/".join(f"{s * 1e6:.0f}" for s in times)
                for _, *times in curve["points"]
            ),
            f"{curve['covered']:.1%}",
            str(max(len(coefficients) - 1, 0)),
        )
    console.print(table)


def show_skyline(at: dict[str, Any], console: "Console") -> None:
    """Print the skyline at one size."""
    from rich.table import Table

    table = Table(title=f"skyline at size {rounded(at['size'])}", box=None)
    table.add_column("predicted", justify="right")
    # early exits make plans cheaper than what is set aside for them
    exits = any(one["mean_cost"] < one["cost"] for one in at["skyline"])
    if exits:
        table.add_column("with early exits", justify="right")
    columns = quality_columns(at)
    for name in columns.values():
        table.add_column(name, justify="right")
    table.add_column("features, in computing order")
    nothing = "none: the class prior"
    if task_of(at["measure"]) == "regression":
        nothing = "none: the mean"
    for candidate in at["skyline"]:
        mean = [show_cost(candidate["mean_cost"], at["unit"])] if exits else []
        table.add_row(
            show_cost(candidate["cost"], at["unit"]),
            *mean,
            *(show_accuracy(candidate[key]) for key in columns),
            ", ".join(candidate["features"]) or nothing,
        )
    console.print(table)


def quality_columns(at: dict[str, Any]) -> dict[str, str]:
    """Name the columns that say how good a skyline's candidates are, by their keys."""
    measure = at["measure"]
    columns = {"quality": name_quality(measure)}
    if measure != "accuracy" and task_of(measure) == "classes":
        columns["accuracy"] = "accuracy"
    return columns


def rounded(size: Any) -> str:
    """Write a size, of one number or two, in whole numbers."""
    return " x ".join(f"{number:,.0f}" for number in np.atleast_1d(size))
