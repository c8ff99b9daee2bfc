"""Finds features by name, among the ready-made features and in the user's files."""

import runpy
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .errors import BadFeature
from .feature import Feature
from .ready_made.image import FEATURES as IMAGE_FEATURES
from .ready_made.learned_text import recipes_by_name
from .ready_made.text import FEATURES as TEXT_FEATURES
from .wording import hint


def ready_made_features() -> tuple[Feature, ...]:
    """Return all ready-made features: images before texts, cheap ones first."""
    return IMAGE_FEATURES + TEXT_FEATURES


def load_features(
    names: Sequence[str], files: Sequence[Path] = ()
) -> tuple[Feature, ...]:
    """Return the features with these names, and all features that files define.

    `names` are of ready-made features or of features in the user's `files`, which are
    executed. The named features come first, then the other features of the files in the
    order of definition. No feature comes twice. BadFeature suggests the nearest name
    for an unknown name, and gives the line if a file cannot be imported.
    """
    ready_made = ready_made_features()
    known = {feature.name: feature for feature in ready_made}
    own: dict[str, Feature] = {}
    for file in files:
        defined = run_file(file).values()
        held = dict.fromkeys(f for f in defined if isinstance(f, Feature))
        if not held:
            raise BadFeature(
                f"{file} defines no feature; a function is one under "
                "@polydom.features.feature"
            )
        for found in held:
            if found not in ready_made:
                if found.name in {*known, *own, *recipes_by_name()}:
                    raise BadFeature(f"{file}: there is another feature {found.name!r}")
                own[found.name] = found
    known |= own
    for name in names:
        if name not in known:
            near = hint(name, [*known, *recipes_by_name()])
            raise BadFeature(f"there is no feature {name!r}; {near}")
    return tuple(known[name] for name in dict.fromkeys([*names, *own]))


def run_file(file: Path) -> dict[str, Any]:
    """Execute a Python file, and return the variables that it defines, by name.

    The file's module does not stay in `sys.modules`. So joblib's cloudpickle sends
    whole functions to workers, which could not import the file.
    """
    if not file.is_file():
        what = "this is a folder" if file.exists() else "No such file or directory"
        raise BadFeature(f"{file}: {what}; a Python file with features is needed")
    try:
        return runpy.run_path(str(file), run_name=f"features_of_{file.stem}")
    except Exception as error:  # the file may raise anything
        line = line_in(file, error)
        place = f"{file}, line {line}" if line else f"{file}"
        raise BadFeature(f"{place}: {type(error).__name__}: {error}") from error


def line_in(file: Path, error: Exception) -> int | None:
    """Return the number of the last line of `file` in an error's traceback, or None."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return error.lineno
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == str(file)
    ]
    return lines[-1] if lines else None
