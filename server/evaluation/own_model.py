"""Models of the user's own, asked item by item beside an index: `--against`."""

import runpy
import sys
from math import isfinite
from pathlib import Path
from typing import Any

from polydom.features.errors import BadInput, BadModel
from polydom.features.loading import line_in
from polydom.features.wording import hint

from .contenders import Said
from .labelled_items import LabelledItem, class_name


class OwnModel:
    """What a function in a file of the user's returned: a fitted estimator.

    Parameters
    ----------
    target
        `FILE.py:FUNCTION`. The function takes nothing; what it returns has a method
        `predict`, which takes a list of items, here of one, and returns as many
        classes, or numbers. An item is an image's bytes, a text, or a dict of a
        record's columns.

    numeric
        Whether it is asked for numbers.

    Raises
    ------
    BadInput
        If there is no such function, it fails, or it returns nothing of the kind.
    """

    features = None

    def __init__(self, target: str, *, numeric: bool = False) -> None:
        self.name = target
        model = _call(target)
        predict = getattr(model, "predict", None)
        if not callable(predict):
            raise BadInput(
                f"--against {target} returned a {type(model).__name__}; something with "
                "a method `predict` is needed, that takes a list of items"
            )
        self._predict = predict
        self._numeric = numeric

    def answer(self, item: LabelledItem) -> Said:
        """Have it predict one item; BadModel where it cannot."""
        try:
            said = self._predict([item.whole])
            if len(said) != 1:
                raise ValueError(f"{len(said)} answers came for a list of one item")
            if not self._numeric:
                return Said(class_name(said[0]))
            value = float(said[0])
            if not isfinite(value):
                raise ValueError(f"{value} came; a finite number is needed")
            return Said(None, value=value)
        except (Exception, SystemExit) as error:  # the user's own, whatever it is
            raise BadModel(
                f"--against {self.name}: {type(error).__name__}: {error}"
            ) from error


def part(target: str) -> tuple[Path, str]:
    """Part `FILE.py:FUNCTION`; BadInput where it is none, or there is no such file."""
    place, _, name = target.rpartition(":")
    file = Path(place)
    if not place or not name.isidentifier():
        raise BadInput(
            f"--against {target}: FILE.py:FUNCTION is needed, such as baseline.py:make"
        )
    if not file.is_file():
        what = "this is a folder" if file.exists() else "there is no such file"
        raise BadInput(f"--against {target}: {what}; a Python file is needed")
    return file, name


def _call(target: str) -> Any:
    """Execute a file, and call a function that it defines.

    Modules beside it can be imported, as by a script.
    """
    file, name = part(target)
    folder = str(file.parent.resolve())
    sys.path.insert(0, folder)
    try:
        defined = runpy.run_path(str(file), run_name=f"against_{file.stem}")
        function = defined.get(name)
        if callable(function):
            return function()
    except (Exception, SystemExit) as error:  # the user's own, whatever it is
        line = line_in(file, error) if isinstance(error, Exception) else None
        where = f", line {line}" if line else ""
        raise BadInput(
            f"--against {target}{where}: {type(error).__name__}: {error}"
        ) from error
    finally:
        sys.path.remove(folder)
    known = [own for own, value in defined.items() if callable(value)]
    known = [own for own in known if not own.startswith("_")]
    raise BadInput(f"{file} has no function {name!r}; {hint(name, known)}")
