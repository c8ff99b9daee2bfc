"""The figures of `bench_polydom`: those that ICSP has, and the build's scaling."""

from pathlib import Path
from typing import Any

from ..figures import figure_at
from .synthetic_sets import ALPHAS, COMBINERS, GREEDY

ALPHA_LINES = [f"alpha {alpha:g}" for alpha in ALPHAS]
# name of a figure: its x and y axes, the table that it is of, the lines
FIGURES = {
    "expanded": ("m", "sets trained", "expanded", ["all", *ALPHA_LINES, *GREEDY]),
    "accuracy": ("budget", "mean accuracy", "accuracy", [*ALPHA_LINES, *GREEDY]),
    "lookups": ("m", "ns per look-up", "indexes", ["ns", "ns Index-All", "ns Naive"]),
    "bytes": ("m", "bytes of the index", "indexes", ["bytes", "bytes Index-All"]),
}
AXES = {"m": "features", "budget": "budget"}
LABELS = {"ns": "polydom", "ns Index-All": "Index-All", "ns Naive": "Naive-Lookup"}
LABELS |= {"all": "all sets", "bytes": "polydom", "bytes Index-All": "Index-All"}
STYLES = dict(zip(ALPHA_LINES, ("C0o-", "C1s-", "C2^-", "C3v-"), strict=True))
STYLES |= dict(zip(GREEDY, ("C4x:", "C5+:", "C6.:"), strict=True)) | {"all": "k--"}
STYLES |= {"ns": "C3o-", "ns Index-All": "C0s-", "ns Naive": "C2^-"}
STYLES |= {"bytes": "C3o-", "bytes Index-All": "C0s-"}


def plot(found: dict[str, Any], folder: Path) -> None:
    """Draw the figures that ICSP has, and the build's scaling."""
    for name, (x, y, source, lines) in FIGURES.items():
        shape = {"figsize": (11, 4), "sharey": True}
        with figure_at(folder / f"{name}.png", 1, len(COMBINERS), **shape) as (_, axes):
            for axis, combiner in zip(axes, COMBINERS, strict=True):
                rows = [row for row in found[source] if row["combiner"] == combiner]
                for line in lines:
                    axis.plot(
                        [row[x] for row in rows],
                        [row[line] for row in rows],
                        STYLES[line],
                        zorder=3 if line == "all" else 2,
                        markersize=4,
                        label=LABELS.get(line, line),
                    )
                axis.set(title=f"combiner {combiner}", xlabel=AXES[x])
                axis.set_yscale("linear" if name == "accuracy" else "log")
                axis.grid(alpha=0.3)
            axes[0].set_ylabel(y)
            axes[0].legend(fontsize=7)
    counts = [row["candidates"] for row in found["builds"]]
    names = {
        "prune_s": "pruning, s",
        "index_s": "indexing, s",
        "added_MB": "memory, MB",
    }
    with figure_at(folder / "builds.png") as (_, axis):
        for line, label in names.items():
            values = [row[line] for row in found["builds"]]
            axis.plot(counts, values, marker="o", label=label)
        axis.set(xscale="log", yscale="log", xlabel="candidates")
        axis.set_title(f"build time grows as candidates ^ {found['exponent']:.2f}")
        axis.grid(alpha=0.3)
        axis.legend()
