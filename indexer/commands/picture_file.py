"""Pictures that commands draw to a file: which may be, and what draws them."""

from pathlib import Path
from typing import Any

from polydom.features.errors import BadInput
from polydom.features.outputs import head_of, refuse_output

ENDINGS = (".png", ".svg", ".pdf")
# In the beginning of what matplotlib writes; of a PDF a comment that it alone has.
OWN_MARKS = (b"Matplotlib", b"%\xac\xdc \xab\xba")


def refuse_picture(path: Path) -> None:
    """Refuse a picture that could not be drawn, before anything is computed for it.

    Raises
    ------
    BadInput
        If the ending is none of those known, matplotlib is not installed, or errors as
        of `refuse_output`; another such picture may be replaced.
    """
    if path.suffix.lower() not in ENDINGS:
        raise BadInput(f"--plot {path}: one of {', '.join(ENDINGS)} is needed")
    refuse_output(path, "a figure", _is_own, example="figure.png", option="--plot")
    import_figure()


def import_figure() -> Any:
    """Give matplotlib's class of figures; BadInput where it is not installed."""
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
