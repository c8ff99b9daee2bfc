"""The rivals since 2024, each on the models that it is for, beside our schedules.

`vote_exits` has forests of two and of more classes, `boosted_exits` LightGBM's trees,
`step_exits` forests of which every node step counts; each says how it is measured, and
each rival's own module how faithful it can be. Counts, no times.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..data.tables import SETS
from ..report import print_table
from . import boosted_exits, multiclass_exits, step_exits, vote_exits
from .forest_votes import MANY, TWO

MANY_FORESTS = 3
LARGE = 500  # trees of the forests that P2-STOP was reported on
LOSS = 0.006  # of accuracy, beyond which a setting is not shown: P2-STOP's was 0.0053
LARGE_SETS = {"adult": TWO, "higgs": TWO, "covtype20k": MANY, "mnist": MANY}


def measure(folder: Path, names: Iterable[str] | None, quiet: bool) -> dict[str, Any]:
    """Every table of every rival on the sets named, shown as it comes."""
    kept = set(SETS if names is None else names)
    found: dict[str, Any] = {
        "votes": {},
        "class votes": {},
        "large forests": {},
        "boosted": {},
        "boosted classes": {},
        "steps": {},
    }

    def note(part: str, name: str, result: dict[str, Any], module: Any) -> None:
        found[part][name] = result
        if not quiet:
            module.show(f"{part}, {name}", result)

    for name in (name for name in TWO if name in kept):
        result = vote_exits.measure(*TWO[name](folder))
        note("votes", name, result, vote_exits)
    for name in (name for name in MANY if name in kept):
        result = vote_exits.measure(*MANY[name](folder), MANY_FORESTS)
        note("class votes", name, result, vote_exits)
    for name in (name for name in LARGE_SETS if name in kept):
        result = vote_exits.measure(*LARGE_SETS[name][name](folder), 1, LARGE)
        note("large forests", name, result, vote_exits)
    found["settings"] = settings(found["large forests"])
    if not quiet:
        print("\nlarge forests: trees saved, and the change of accuracy, by setting")
        print_table([row for row in found["settings"] if row["worst"] >= -LOSS])
    for name in (name for name in SETS if name in kept):
        note("boosted", name, boosted_exits.measure_two(name, folder), boosted_exits)
    for name in (name for name in multiclass_exits.SETS if name in kept):
        result = boosted_exits.measure_many(name, folder)
        note("boosted classes", name, result, boosted_exits)
    for name in (name for name in step_exits.SETS if name in kept):
        result = step_exits.measure_shapes(name, folder)
        note("steps", name, result, step_exits)
    return found


def settings(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Each rival setting's savings on every set, their mean, and accuracies gained."""
    table: dict[tuple[str, Any], dict[str, Any]] = {}
    for name, result in results.items():
        for point in result["points"]:
            if point["method"].startswith("polydom"):
                continue
            key = point["method"], point["knob"]
            row = table.setdefault(key, {"method": key[0], "setting": told(key[1])})
            row[name] = 1 - point["mean"] / result["trees"]
            row[f"{name}, right"] = point["accuracy"] - result["accuracy"]
    for row in table.values():
        row["mean"] = sum(row[name] for name in results) / len(results)
        row["worst"] = min(row[f"{name}, right"] for name in results)
    return list(table.values())


def told(knob: Any) -> str:
    """Write a setting of one number or of two."""
    numbers = knob if isinstance(knob, tuple) else (knob,)
    return ", ".join(f"{number:g}" for number in numbers)
