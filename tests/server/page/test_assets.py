"""What pages are made of asks nobody else, and can be joined to one file."""

import hashlib
import re

import pytest

from polydom.indexer.index.quality import OF_CLASSES, OF_NUMBERS
from polydom.server.page.assets import POLICY, STATIC, Assets, join_modules

# As its makers published it (npm, uplot 1.6.32); a change here is a change of theirs.
UPLOT = {
    "uplot/uPlot.iife.min.js": (
        "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f"
    ),
    "uplot/uPlot.min.css": (
        "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04"
    ),
}
PAGES = ("index.html", "docs.html")


def test_charts_are_as_their_makers_published_them() -> None:
    files = Assets().files
    for name, digest in UPLOT.items():
        assert hashlib.sha256(files[name]).hexdigest() == digest
    assert b"MIT License" in files["uplot/LICENSE.txt"]


@pytest.mark.parametrize("name", PAGES)
def test_pages_run_nothing_inline_and_name_nobody_else(name: str) -> None:
    page = Assets().page(name).decode()
    assert not re.search(r"\son[a-z]+=|style=|<style|javascript:", page)
    assert all(" src=" in tag for tag in re.findall("<script[^>]*>", page))
    named = set(re.findall(r'(?:href|src)="([^"#]*)"', page))
    assert not [
        one
        for one in named
        if re.match(r"[a-z]+:(?!image/svg|,)|//|/", one) and not one.startswith("data:")
    ]


def test_scripts_make_no_code_of_data() -> None:
    own = {
        n: c.decode()
        for n, c in Assets().files.items()
        if n[-3:] == ".js" and "/" not in n
    }
    assert "page.js" in own
    for text in own.values():
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|eval\(|Function\(", text
        )
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert "'unsafe" not in POLICY


def test_files_are_where_their_contents_say() -> None:
    assets = Assets()
    assert re.fullmatch(r"page/[0-9a-f]{16}", assets.folder)
    assert assets.folder == Assets().folder
    for name in PAGES:
        page = assets.page(name).decode()
        used = re.findall(rf'"{assets.folder}/([^"]+)"', page)
        assert used
        assert set(used) <= set(assets.files)


@pytest.mark.parametrize("name", ["page.js", "docs.js"])
def test_joined_modules_are_one_script(name: str) -> None:
    joined = join_modules(name)
    assert not re.search(r"^(import|export) ", joined, re.MULTILINE)
    declared = re.findall(
        r"^(?:const|let|class|(?:async )?function) (\w+)", joined, re.MULTILINE
    )
    assert sorted(set(declared)) == sorted(declared)
    for module in STATIC.glob("*.js"):
        assert joined.count(module.read_text("utf-8").split("\n")[0]) <= 1


def test_the_page_names_each_measure_as_commands_do() -> None:
    words = Assets().files["index_words.js"].decode()
    block = words[words.index("const QUALITIES") : words.index("};")]
    assert dict(re.findall(r'(\w+): "([^"]+)"', block)) == OF_CLASSES | OF_NUMBERS
