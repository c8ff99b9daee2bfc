"""Files that features declare: their checksums, and the check that they are the same.

An index keeps the checksums by the names that the code gives the files. Only files that
the code declares are opened; a name in an index is compared, and never opened.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from .errors import BadFeature
from .extract import with_needs
from .feature import Feature

Checksums = dict[str, str]  # SHA-256, hexadecimal, by the name of a declared file
SHOWN = 12  # digits of a checksum in a message


def files_of(feature: Feature) -> dict[str, Path]:
    """Return the files that a feature and its steps declare, by name.

    Raises BadFeature if one name is of two files.
    """
    found: dict[str, Path] = {}
    for node in (*with_needs([feature]), feature):
        for name, path in node.files.items():
            if found.setdefault(name, path) != path:
                raise BadFeature(
                    f"feature {feature.name!r} and its steps declare two files "
                    f"{name!r}: {found[name]} and {path}; give one another name"
                )
    return found


def checksums_of(features: Sequence[Feature]) -> list[Checksums]:
    """Return the checksums of each feature's files; read each file once.

    Raises BadFeature if a file cannot be read.
    """
    known: dict[Path, str] = {}
    found = []
    for feature in features:
        own = files_of(feature)
        for name, path in own.items():
            if path not in known:
                known[path] = _checksum(feature, name, path)
        found.append({name: known[path] for name, path in own.items()})
    return found


def _checksum(feature: Feature, name: str, path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BadFeature(
            f"feature {feature.name!r} declares the file {name!r}, which cannot be "
            f"read: {error.strerror}"
        ) from None


def refuse_changed(
    features: Sequence[Feature], stored: Sequence[Mapping[str, str]]
) -> None:
    """Raise BadFeature if a file is not the one that an index was built with.

    `stored` has the checksums of each feature's files in the index. Files must be
    declared by the code and known to the index.
    """
    for feature, known, own in zip(
        features, stored, checksums_of(features), strict=True
    ):
        for name in sorted(known.keys() | own.keys()):
            if known.get(name) != own.get(name):
                raise BadFeature(
                    f"feature {feature.name!r}: {_difference(name, known, own)}"
                )


def _difference(name: str, known: Mapping[str, str], own: Mapping[str, str]) -> str:
    if name not in known:
        return (
            f"it declares the file {name!r}, of which the index has no checksum; build "
            "the index again"
        )
    if name not in own:
        return (
            f"the index was built with the file {name!r}, which the feature declares "
            "no more; declare it, or build the index again"
        )
    return (
        f"the file {name!r} is not the one that the index was built with: its SHA-256 "
        f"begins {own[name][:SHOWN]}, and {known[name][:SHOWN]} is needed; put that "
        "file back, or build the index again"
    )
