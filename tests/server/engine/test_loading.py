"""From an index file to what answers with it."""

import gc
import os
import sys
import weakref
from dataclasses import replace
from pathlib import Path

import pytest

from polydom.features.errors import BadFeature, BadIndexFile
from polydom.features.items import text_item
from polydom.indexer import Index
from polydom.server.app import create_app
from polydom.server.engine.budget import MoneyBudget
from polydom.server.engine.executions.execution import execute
from polydom.server.engine.loading import load_index, load_planner, package_of
from polydom.server.engine.request import Request
from polydom.server.settings import Settings
from tests.support.indexes import stopping_records, with_networks, zoo
from tests.support.indexes.served import FEATURES_FILE, make_index, save_index
from tests.support.processes.forked_process import run_forked

BARE = Index.from_candidates([[1e-3]], [0.5], (1, 10))


def test_a_planner_comes_of_an_index_or_its_file(tmp_path: Path) -> None:
    path = save_index(tmp_path)
    request = Request(text_item("free money"), MoneyBudget(1.0))
    settings = Settings(correct=False, audit=0.5)
    for index in (path, str(path), Index.load(path)):
        planner = load_planner(index, [FEATURES_FILE], settings)
        assert execute(planner, request).row == 3
        assert (planner.corrects, planner.audit.share) == (False, 0.5)
    assert not load_planner(make_index("usd"), [FEATURES_FILE]).corrects


def test_bare_candidates_are_refused_by_the_name_of_their_file(tmp_path: Path) -> None:
    path = tmp_path / "bare.pdx"
    BARE.save(path)
    for load in (load_index, load_planner):
        with pytest.raises(BadIndexFile, match=r"bare\.pdx: candidates without models"):
            load(path)
    with pytest.raises(BadIndexFile, match="this index: candidates without models"):
        load_planner(BARE)
    with pytest.raises(BadIndexFile, match="this index: candidates without models"):
        package_of(BARE)


def test_a_feature_whose_code_is_not_given_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFeature):
        load_planner(save_index(tmp_path))


@pytest.mark.parametrize("library", ["onnxruntime", "tokenizers"])
def test_a_server_without_the_libraries_of_networks_ends_with_a_sentence(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_networks.make_index("text").save(tmp_path / "texts.pdx")
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(BadFeature, match=rf"need the library {library}; pip install"):
        create_app(tmp_path / "texts.pdx")


def test_sessions_end_with_their_planner() -> None:
    """A reload leaves nothing of the index before."""
    index = with_networks.make_index("image")
    assert index.package is not None
    networks = tuple(map(replace, index.package.networks))  # no sessions yet
    planner = load_planner(
        replace(index, package=replace(index.package, networks=networks))
    )
    steps = {one.name: one for one in planner.extractor.steps}
    session = weakref.ref(steps["net_32_1 map"].function.piece.session)  # type: ignore
    assert session() is not None
    del steps, planner, networks
    gc.collect()
    assert session() is None


# Each index is asked in a process that has loaded no kernel for another.
ASK = """
import os, sys
from pathlib import Path
import numpy as np
from polydom.models.scoring.kernels.cached_njit import DECLARED, Kernel
from polydom.server.engine.loading import load_planner
from polydom.server.offline_scoring.score_items import score_items
from polydom.server.runtime.translator import AtOnce
from polydom.server.runtime.translator import Translator
from polydom.server.runtime.warm_up import WarmUp
from polydom.server.schema.wire import Terms
from polydom.server.settings import Settings
from tests.support.indexes import served
from tests.support.edited_files.exercise import item_of, sizes_of

def ask(path):
    planner = load_planner(path, [served.FEATURES_FILE])
    compile_declared = Kernel.compile_declared

    def late(kernel):
        if kernel._can_compile:
            print(path, kernel.py_func.__name__)
        compile_declared(kernel)

    Kernel.compile_declared = late
    index, package = planner.index, planner.package
    WarmUp(planner).run()
    for size in sizes_of(index, np.random.default_rng(0)):
        index.skyline(size)
        for budget in (0.0, 1e-3, 1e9):
            index.lookup.best(size, budget)
    timed = planner.unit == "s"
    translator = Translator(planner, Settings())
    payload = [*package.meta["samples"], item_of(index).payload][0]
    for amount in (0.0, 0.05, 20.0, 2000.0):
        for exact in (False, True):
            budget_ms, budget = (amount, None) if timed else (None, amount)
            terms = Terms(budget_ms=budget_ms, budget=budget, exact=exact)
            AtOnce(translator).answer(terms, payload)
        spent = {"total_budget_s" if timed else "total_budget": amount}
        files = [served.FEATURES_FILE]
        list(score_items(index, 3 * [payload], features=files, **spent))

assert all(kernel._can_compile for kernel in DECLARED)
for path in map(Path, sys.argv[1:]):
    process = os.fork()
    if not process:
        ask(path)
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(process, 0)[1] == 0, path
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_no_kernel_is_missing_once_an_index_is_loaded(tmp_path: Path) -> None:
    paths = zoo.save_zoo(tmp_path)
    stopping = tmp_path / "stopping.pdx"
    stopping_records.make_index().save(stopping)
    asked = [path for name, path in paths.items() if not name.startswith("bare")]
    program = tmp_path / "ask.py"
    program.write_text(ASK)
    done = run_forked(["python", str(program), *map(str, asked), str(stopping)])
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
