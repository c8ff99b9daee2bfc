"""The command that shows which feature set a budget buys: `polydom plan`."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polydom.features.errors import BadInput, NothingFits, printable
from polydom.features.figures import show_accuracy, show_cost, show_ms
from polydom.features.items import SIZE_NAMES
from polydom.features.sizes import Size, read_size, show_size
from polydom.indexer.index.quality import NO_FEATURE, name_quality

from ..options import BUDGETS, AsJson, Budget, BudgetMs, IndexFile

if TYPE_CHECKING:
    from polydom.indexer.index.index import Index
    from polydom.indexer.index.package import Package


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
    """Show which feature set a budget buys, and the next cheaper and dearer sets."""
    from ...engine.loading import load_index

    loaded, _ = load_index(index)
    facts = explain(loaded, _size_for(loaded, size), budget_ms, budget)
    typer.echo(json.dumps(facts) if as_json else table_of(facts))


def _size_for(index: "Index", text: str | None) -> Size:
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


def explain(
    index: "Index", size: Size, budget_ms: float | None, budget: float | None
) -> dict[str, Any]:
    """Return facts about the feature set that a budget buys for an item of this size.

    The facts are `size`, `unit`, `task`, `measure`, `budget_us`, `fits`, `cheaper`,
    `bought` and `dearer`. The last three are feature sets, or None if there is no such
    set. Each has `features` in computing order, `predicted_us`, `expected_quality` and
    `expected_accuracy`, which is None if answers are numbers. If the budget buys no
    set, `fits` is False, and `bought` is the prior.

    If the index has fetches, the feature sets are those for a request for which all
    fetches have come. Then `came` has the share of requests for which each fetch comes
    by then, by name, and `expected_quality` is that of answers with what has come.

    If the index's unit is not time, `budget_us` and `predicted_us` are named `budget`
    and `predicted`, and are in that unit.
    """
    from ...engine.budget import read_amount
    from ...engine.loading import package_of

    package = package_of(index)
    unit = str(package.meta.get("unit", "s"))
    amount = read_amount(unit, budget_ms, budget, BUDGETS)
    if amount is None:
        needed = "--budget-ms" if unit == "s" else f"--budget (in {unit})"
        raise BadInput(f"say how much the item may cost: {needed}")
    row, fits = _buy(index, package, size, amount)
    skyline = [int(other) for other in index.skyline(size)]
    # the prior is not on the skyline if an equally cheap set is better
    if row not in skyline:
        skyline.insert(0, row)
    place = skyline.index(row)

    def describe(place: int) -> dict[str, Any] | None:
        if not 0 <= place < len(skyline):
            return None
        row = skyline[place]
        return {
            "features": list(package.names(row)),
            **_in_unit("predicted", index.cost_s(row, size), unit),
            "expected_quality": float(index.qualities[row]),
            "expected_accuracy": index.accuracy(row),
        }

    return {
        "size": size,
        "unit": unit,
        "task": package.task,
        "measure": package.measure,
        **_in_unit("budget", amount, unit),
        "fits": fits,
        "cheaper": describe(place - 1),
        "bought": describe(place),
        "dearer": describe(place + 1),
        **_fetched(index, package, amount),
    }


def _fetched(index: "Index", package: "Package", budget_s: float) -> dict[str, Any]:
    """Return what an index with fetches can expect of a budget; {} without fetches."""
    from polydom.indexer.index.fetches.arrivals import Arrivals
    from polydom.indexer.index.fetches.fetch_facts import expected_of

    if not package.fetches:
        return {}
    arrivals = Arrivals(index)
    told = expected_of(index, arrivals, budget_s)
    came = dict(zip(arrivals.names, told.came, strict=True))
    return {"came": came, "expected_quality": told.quality}


def _buy(
    index: "Index", package: "Package", size: Size, amount: float
) -> tuple[int, bool]:
    """Return the row of the best candidate that costs at most `amount`, and True.

    If no candidate fits, return the prior's row, and False.
    """
    try:
        return index.best(size, amount).row, True
    except NothingFits:
        return package.masks.tolist().index(0), False


def table_of(facts: dict[str, Any]) -> str:
    """Return the facts of `explain` as a text table."""
    columns = {"expected_quality": f"{name_quality(facts['measure']):>8}"}
    if facts["task"] == "classes" and facts["measure"] != "accuracy":
        columns["expected_accuracy"] = "accuracy"
    lines = [
        f"size {show_size(facts['size'])}, "
        f"budget {_amount('budget', facts, facts['unit'])}",
        f"{'':7}  {'costs':>12}  {'  '.join(columns.values())}  "
        "features, in computing order",
    ]
    for name in ("cheaper", "bought", "dearer"):
        found = facts[name]
        if found is None:
            lines.append(f"{name:7}  {'-':>12}")
            continue
        lines.append(
            f"{name:7}  {_amount('predicted', found, facts['unit']):>12}  "
            + "".join(
                f"{show_accuracy(found[key]):>{len(head)}}  "
                for key, head in columns.items()
            )
            + (printable(", ".join(found["features"])) or NO_FEATURE)
        )
    if not facts["fits"]:
        lines.append(f"the budget buys {NO_FEATURE}")
    for name, share in facts.get("came", {}).items():
        lines.append(
            f"{printable(name)} has come by then in {share * 100:.3g} of 100 requests"
        )
    if "came" in facts:
        quality = show_accuracy(facts["expected_quality"])
        measure = name_quality(facts["measure"])
        lines.append(f"expected {measure} of answers with what has come: {quality}")
        lines.append("the sets above are for requests for which all fetches have come")
    if facts["unit"] == "s":
        lines.append("without HTTP; a server also keeps some time for answering")
    return "\n".join(lines)


def _in_unit(name: str, amount: float, unit: str) -> dict[str, float]:
    return {f"{name}_us": round(amount * 1e6, 1)} if unit == "s" else {name: amount}


def _amount(name: str, facts: dict[str, Any], unit: str) -> str:
    if unit == "s":
        return show_ms(facts[f"{name}_us"] / 1e3)
    return show_cost(facts[name], unit)
