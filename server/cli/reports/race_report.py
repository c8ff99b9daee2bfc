"""The table and the picture of a race of learners, for `polydom select`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from polydom.features.errors import BadInput
from polydom.features.outputs import head_of, refuse_output

from .terminal import print_line, print_table

if TYPE_CHECKING:
    from rich.console import Console

ENDINGS = (".png", ".svg", ".pdf")
# Bytes near the beginning of every file that matplotlib writes. The second mark is a
# comment that only matplotlib's PDFs have.
OWN_MARKS = (b"Matplotlib", b"%\xac\xdc \xab\xba")
NAMED = 8  # number of learners with a name in the plot; the others are grey


def show_race(race: dict[str, Any], console: "Console") -> None:
    """Print each learner's number of examples, time and last score, and the winner."""
    rows = []
    for learner, curve in sorted(race["curves"].items(), key=_most_examples_first):
        spent_s = sum(seconds for _, _, seconds in curve)
        most, score, _ = curve[-1]
        won = "*" if learner == race["learner"] else " "
        numbers = f"{score:.4f}", f"{spent_s:.2f}"
        rows.append((f"{won} {learner}", str(len(curve)), str(most), *numbers))
    heads = ("learner", "trainings", "most examples", "last score", "CPU s")
    print_table(console, heads, rows, title=f"race by {race['strategy']}")
    for learner, why in race["failed"].items():
        print_line(console, f"{learner} failed: {why}")
    for learner, texts in race.get("warnings", {}).items():
        print_line(console, f"{learner} warned: {texts[0].splitlines()[0]}")
    print_line(
        console,
        f"{race['learner']} wins with {race['score']:.4f} after {race['seconds']:.1f} "
        "CPU s",
    )


def plot_race(race: dict[str, Any], path: Path) -> None:
    """Plot learning curves and examples per learner (figures 1 and 2 of DAUB)."""
    figure = import_figure()(figsize=(11, 6), layout="constrained")
    left, right = figure.subplots(1, 2)
    ranked = sorted(race["curves"].items(), key=_most_examples_first)
    best = sorted(race["curves"], key=lambda learner: -race["curves"][learner][-1][1])
    lows = []
    for learner, curve in sorted(ranked, key=lambda entry: best.index(entry[0])):
        amounts, scores = [line[0] for line in curve], [line[1] for line in curve]
        if learner in best[:NAMED]:
            left.plot(amounts, scores, marker=".", label=learner)
            lows.append(min(scores))
        else:
            left.plot(amounts, scores, marker=".", color="0.85", zorder=1)
    high = left.get_ylim()[1]
    # The axis may cut off curves far below the best, which would flatten all others.
    left.set_ylim(min(lows) - 0.1 * (high - min(lows)), high)
    left.legend(fontsize=7)
    left.set(xscale="log", xlabel="examples", ylabel="validation score")
    names = [learner for learner, _ in reversed(ranked)]
    given = [sum(line[0] for line in curve) for _, curve in reversed(ranked)]
    right.barh(names, given)
    right.set(xlabel="examples given in all")
    right.tick_params(axis="y", labelsize=6)
    left.set_title(f"race by {race['strategy']}")
    figure.savefig(path, dpi=120)


def refuse_picture(path: Path) -> None:
    """Raise BadInput if a picture cannot be written to `path`; called before a race."""
    if path.suffix.lower() not in ENDINGS:
        raise BadInput(f"--plot {path}: one of {', '.join(ENDINGS)} is needed")
    refuse_output(path, "a figure", _is_own, example="figure.png", option="--plot")
    import_figure()


def import_figure() -> Any:
    """Return matplotlib's class `Figure`; raise BadInput without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise BadInput(
            "drawing needs matplotlib: pip install 'polydom[plot]'"
        ) from error
    return Figure


def _is_own(path: Path) -> bool:
    head = head_of(path)
    return any(mark in head for mark in OWN_MARKS)


def _most_examples_first(entry: tuple[str, Any]) -> tuple[float, float]:
    """Return a key to sort learners by: most examples, then the best last score."""
    _, curve = entry
    return -curve[-1][0], -curve[-1][1]
