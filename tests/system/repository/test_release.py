"""What a release says of itself is the same everywhere."""

import re
import tomllib
from importlib.metadata import version

import pytest
import yaml

from polydom.indexer.index.file.pdx_file import FORMAT_VERSION
from tests.support.places import DOCS, ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
VERSIONS = (DOCS / "reference" / "versions.md").read_text()
RELEASES = re.findall(r"^## \[(\d[^]]*)\] - (\d{4}-\d\d-\d\d)$", CHANGELOG, re.M)
NEWEST, DATE = RELEASES[0]
MINOR = NEWEST.rpartition(".")[0]


def test_changelog_begins_with_what_pyproject_calls_the_version() -> None:
    assert PROJECT["project"]["version"] == NEWEST
    headings = re.findall(r"^## \[(.*?)\]", CHANGELOG, re.MULTILINE)
    assert headings[:2] == ["Unreleased", NEWEST]
    for heading in headings:
        assert re.search(rf"^\[{re.escape(heading)}\]: https://", CHANGELOG, re.M)


def test_installed_version_is_that_one() -> None:
    assert version("polydom") == NEWEST


def test_citation_is_of_the_newest_release() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (cited["version"], cited["date-released"]) == (NEWEST, DATE)
    assert cited["license"] == PROJECT["project"]["license"]
    papers = (DOCS / "explanation" / "papers.md").read_text().lower()
    for paper in cited["references"]:
        words = paper["title"].partition(":")[0].lower()
        assert re.sub(r"\s+", " ", words) in re.sub(r"\s+", " ", papers)


def test_versions_name_the_format_of_the_file_and_the_newest_release() -> None:
    assert f"| {MINOR} | {FORMAT_VERSION} |" in VERSIONS
    assert f"in the file's header: {FORMAT_VERSION} |" in VERSIONS
    assert f"| {MINOR} | yes |" in (ROOT / "SECURITY.md").read_text()


def test_versions_name_the_pythons_that_are_supported() -> None:
    classifiers = PROJECT["project"]["classifiers"]
    minors = [c.rpartition(" ")[2] for c in classifiers if ":: 3." in c]
    assert f"| CPython | {', '.join(minors)} |" in VERSIONS


@pytest.mark.parametrize("library", ["numba", "scikit-learn", "uvicorn"])
def test_libraries_whose_inside_is_used_are_bounded(library: str) -> None:
    (need,) = (n for n in PROJECT["project"]["dependencies"] if n.startswith(library))
    assert ",<" in need
    assert library in VERSIONS


def test_nothing_else_imports_what_is_private() -> None:
    """An import of a name with an underscore, of a library that is not bounded."""
    bounded = {"numba", "sklearn", "uvicorn"}
    private = re.compile(r"^\s*(?:from|import) ((\w+)\S*\._[a-z]\S*)", re.MULTILINE)
    for room in ("features", "models", "indexer", "server", "polydom"):
        for path in (ROOT / room).rglob("*.py"):
            for name, library in private.findall(path.read_text()):
                assert library in bounded, f"{path}: {name}"
