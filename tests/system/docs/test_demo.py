"""`make demo` finds everything that it imports."""

import runpy
from pathlib import Path

import pytest

from tests.support.places import DOCS

pytestmark = pytest.mark.jit


@pytest.mark.parametrize("path", sorted(DOCS.rglob("*.py")), ids=lambda path: path.name)
def test_a_script_of_the_documents_can_be_imported(path: Path) -> None:
    assert runpy.run_path(str(path))["__doc__"]
