"""Tables of the curves of exits: our schedules and the rivals' side by side."""

from typing import Any

from .equal_change import by_method, cheapest, equal_change, frontier

Points = list[dict[str, Any]]

LIMITS = (0.01, 0.005, 0.002, 0.001)
LOSS = 0.002  # of accuracy, within which LazyRF calls forests equivalent
MOST = 0.02  # changed: curves are compared below it
OURS = "polydom"


def show_curves(points: Points, accuracy: float) -> None:
    """Print each method's cheapest points, and how `OURS` compares at equal change."""
    heads = "".join(f"{limit:>16.1%}" for limit in LIMITS) + f"{f'-{LOSS} right':>16}"
    print(f"{'trees, accuracy at test change <=':36}{heads}  {OURS} / it")
    found = by_method(points)
    for method, curve in found.items():
        cells = "".join(cell(cheapest(curve, limit)) for limit in LIMITS)
        right = (p for p in curve if p["accuracy"] >= accuracy - LOSS)
        cells += cell(cheapest(right, 1.0))
        ratio = equal_change(low(found[OURS]), low(curve))
        told = "" if ratio is None else "{:.3f} ({:.2%} to {:.2%})".format(*ratio)
        print(f"{method:36}{cells}  {told}")


def show_frontier(method: str, points: Points) -> None:
    """Print every point of a curve that no other beats."""
    changed, mean = frontier(points)
    cells = (f"{m:.1f} at {c:.2%}" for c, m in zip(changed, mean, strict=True))
    print(f"all of {method}: {', '.join(dict.fromkeys(cells))}")


def low(points: Points) -> Points:
    """Leave out what changes more than anyone would want."""
    return [point for point in points if point["changed"] <= MOST]


def cell(point: dict[str, Any] | None) -> str:
    """Trees and accuracy of a point."""
    if point is None:
        return f"{'-':>16}"
    return f"{point['mean']:9.2f} {point['accuracy']:.4f}"
