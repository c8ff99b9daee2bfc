"""reference/python.md: every public name, and examples that run in their order."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from tests.support.pages import blocks, read, run_python
from tests.support.processes.servers import serving

PAGE = "reference/python.md"
PACKAGES = ["", ".features", ".models", ".indexer", ".server"]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_there(package: str) -> None:
    described = set(re.findall(r"^::: ([\w.]+)$", read(PAGE), re.MULTILINE))
    public = import_module(f"polydom{package}").__all__
    for name in set(public) - {"__version__"}:
        places = {f"polydom{package}.{name}", f"polydom.{name}"}
        assert places & described, name
    assert "`polydom.__version__`" in read(PAGE)


def test_what_is_described_can_be_imported() -> None:
    for path in re.findall(r"^::: ([\w.]+)$", read(PAGE), re.MULTILINE):
        module, _, name = path.rpartition(".")
        assert hasattr(import_module(module), name), path


@pytest.mark.jit
def test_examples_run_in_their_order(tmp_path: Path) -> None:
    codes = blocks(PAGE, "python")
    (asks,) = (at for at, code in enumerate(codes) if "polydom import Client" in code)
    printed = run_python("".join(codes[:asks]), tmp_path)
    assert printed.startswith("<Index of ")
    (served,) = blocks(PAGE, "sh")
    assert served == "polydom serve iris.pdx\n"
    with serving("iris.pdx", folder=tmp_path) as (_, port):
        code = "".join(codes[asks:]).replace(":8000", f":{port}")
        printed = run_python(code, tmp_path)
    assert printed.count("Entry(label=") == 3
    assert re.search(r"^[\d.]+ of 50 trees$", printed, re.MULTILINE)
