"""Files of networks are at hand before a build reads items."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from polydom.features.errors import BadFeature, LacksWork
from polydom.indexer.building.cache import Cache, ReadOnlyCache
from polydom.indexer.building.features import network_files
from polydom.indexer.building.features.network_files import with_network_files
from polydom.indexer.building.project import Project
from polydom.indexer.progress import Silence
from tests.support.networks.small_networks import of_images, of_texts

CONTENT = of_images(1).SerializeToString()
CHECKSUM = hashlib.sha256(CONTENT).hexdigest()


def project(folder: Path, **terms: Any) -> Project:
    terms = {"name": "net", "kind": "image", "file": "net.onnx"} | terms
    content = {"data": {"images": "none"}, "features": {"networks": [terms]}}
    return Project.from_mapping(content, folder=folder)


@dataclass
class Source:
    """Stands in for a server of files: what it has, and how often it was asked."""

    content: bytes
    asked: int = 0

    def download(self, address: str, place: Path, sha256: str, **_: object) -> None:
        assert (address, sha256) == ("https://files.invalid/net", CHECKSUM)
        self.asked += 1
        place.write_bytes(self.content)


def test_a_file_at_an_address_is_fetched_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, cache = Source(CONTENT), Cache(tmp_path / "cache")
    monkeypatch.setattr(network_files, "download", source.download)
    named = project(tmp_path, file="https://files.invalid/net", sha256=CHECKSUM)
    (terms,) = with_network_files(named, cache, Silence()).features.networks
    place = tmp_path / "cache" / "networks" / f"{CHECKSUM}.onnx"
    assert Path(terms.file) == place
    with_network_files(named, cache, Silence())
    assert source.asked == 1
    place.write_bytes(CONTENT[:-1])  # a damaged file is fetched again
    with_network_files(named, cache, Silence())
    assert source.asked == 2
    place.unlink()
    lacks = LacksWork("the build has to fetch it")
    with pytest.raises(LacksWork, match="the build has to fetch it"):
        with_network_files(named, ReadOnlyCache(tmp_path / "cache", lacks), Silence())


def test_a_path_begins_in_the_projects_folder(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(CONTENT)
    cache = Cache(tmp_path / "cache")
    for sha256 in (None, CHECKSUM, CHECKSUM.upper()):
        named = project(tmp_path, sha256=sha256)
        (terms,) = with_network_files(named, cache, Silence()).features.networks
        assert Path(terms.file) == tmp_path / "net.onnx"


@pytest.mark.parametrize(
    ("content", "change", "message"),
    [
        (None, {}, "No such file"),
        (b"text", {}, "is no ONNX file"),
        (CONTENT, {"sha256": "0" * 64}, f"is {CHECKSUM}; 0000"),
        (of_texts(1).SerializeToString(), {}, "network of images has one"),
        (CONTENT, {"kind": "text", "tokenizer": "net.onnx"}, "is no file of the lib"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_before_items_are_read(
    content: bytes | None, change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "net.onnx").write_bytes(content)
    with pytest.raises(BadFeature, match=message):
        with_network_files(
            project(tmp_path, **change), Cache(tmp_path / "cache"), Silence()
        )
