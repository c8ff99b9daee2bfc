"""ICSP's scene images at four sizes, as a project's items (scene15)."""

import hashlib
import io
from collections.abc import Iterator
from pathlib import Path

from PIL import Image

from ..places import data_folder

SCALES = (0.5, 1.0, 1.5, 2.0)
QUALITY = 90


def load() -> Iterator[tuple[bytes, str, str]]:
    """Yield (JPEG bytes, scene, group) for every image at one of the sizes in turn."""
    for number, (path, label, group) in enumerate(manifest()):
        yield rescale(path, SCALES[number % len(SCALES)]), label, group


def manifest() -> Iterator[tuple[Path, str, str]]:
    """Yield path, label and checksum of every image, those to train on first."""
    folder, seen = data_folder() / "scene15", set[str]()
    for part in ("train", "test"):
        for path in sorted((folder / part).glob("*/*.jpg")):
            checksum = hashlib.sha256(path.read_bytes()).hexdigest()
            if checksum not in seen:
                seen.add(checksum)
                yield path, path.parent.name, checksum


def rescale(path: Path, scale: float) -> bytes:
    """Return the image at another size, as JPEG."""
    if scale == 1:
        return path.read_bytes()
    with Image.open(path) as image:
        width, height = (max(1, round(edge * scale)) for edge in image.size)
        file = io.BytesIO()
        resized = image.resize((width, height), Image.Resampling.LANCZOS)
        resized.save(file, "jpeg", quality=QUALITY)
        return file.getvalue()
