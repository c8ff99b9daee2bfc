"""The files of a project's networks, at hand before a build reads any item."""

from pathlib import Path

import msgspec

from polydom.features.networks.onnx_graph import MOST_BYTES
from polydom.features.networks.open_network import check_file, checksum_of
from polydom.features.networks.terms import NetworkTerms

from ...progress import Progress
from ..cache import Cache, ReadOnlyCache
from ..project import Project
from .download import download

FOLDER = "networks"  # folder of fetched files, in the folder of the cache


def with_network_files(project: Project, cache: Cache, progress: Progress) -> Project:
    """Return the project with paths of its networks' files, and no addresses.

    A file at an address is fetched into the cache, unless the cache has it. Raises
    BadProject if a file cannot be fetched, and BadFeature if it cannot be used, or a
    library is not installed.
    """
    networks = []
    for one in project.features.networks:
        one = one.inside(project.folder)
        if one.fetched:
            file = _fetched(one, cache, progress)
            one = msgspec.structs.replace(one, file=str(file))
        check_file(one)
        networks.append(one)
    features = msgspec.structs.replace(project.features, networks=networks)
    return msgspec.structs.replace(project, features=features)


def cached_file(terms: NetworkTerms, cache: Cache) -> Path:
    """Return the path at which a cache keeps the file of an address."""
    return cache.folder / FOLDER / f"{(terms.sha256 or '').lower()}.onnx"


def _fetched(terms: NetworkTerms, cache: Cache, progress: Progress) -> Path:
    place, needed = cached_file(terms, cache), terms.sha256 or ""
    if place.is_file() and checksum_of(place) == needed.lower():
        return place
    if isinstance(cache, ReadOnlyCache):
        raise cache.lacks
    place.parent.mkdir(parents=True, exist_ok=True)
    what = f"network {terms.name!r}"
    download(terms.file, place, needed, most=MOST_BYTES, what=what, progress=progress)
    return place
