"""Builds of texts and images whose vectors are fetched."""

import asyncio
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from polydom.features.costs.polynomials import costs_at
from polydom.features.errors import BadFeature, BadFetch, BadProject
from polydom.features.fetches.load import load_fetches
from polydom.features.items import make_item
from polydom.indexer.building.build import build
from polydom.indexer.building.data.check_data import check_data
from polydom.indexer.building.data.dataset import make_dataset
from polydom.indexer.building.project import Project
from polydom.indexer.index.fetches.arrivals import Arrivals
from polydom.indexer.index.fetches.fetch_facts import answering_s, expected_of
from polydom.indexer.index.index import Index
from polydom.indexer.progress import Silence
from tests.support.builds.vector_project import CALLS, make_project, terms


def package_of(index: Index) -> Any:
    assert index.package is not None
    return index.package


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("vectors")


@pytest.fixture(scope="module")
def built(folder: Path) -> Index:
    return build(make_project(folder), output=folder / "a.pdx")


def test_features_are_vectors_and_say_which_vectors_they_need(built: Index) -> None:
    package = package_of(built)
    stored = {one.name: (one.width, one.fetched) for one in package.features}
    assert stored == {
        "shouts": (1, []),
        "strength": (1, ["embedding"]),
        "embedding": (4, ["embedding"]),
        "mood": (1, ["mood"]),
    }
    embedding, mood = package.fetches
    assert (embedding.key, embedding.columns, embedding.width) == ([], ["embedding"], 4)
    assert (embedding.price, mood.price) == ({"usd": 1e-5}, {})
    assert package.arrivals.shape == (200, 2)
    assert (package.arrivals[:, 0] >= 0.002).all()


def test_the_best_set_for_each_outcome_is_kept(built: Index) -> None:
    masks, arrivals = package_of(built).masks.tolist(), Arrivals(built)
    qualities: list[float] = built.qualities.tolist()

    def best(came: int) -> float:
        withheld = arrivals.withheld(came)
        answering = zip(masks, qualities, strict=True)
        return max(quality for mask, quality in answering if not mask & withheld)

    # without the vector of meaning, only the shouts tell something
    assert best(0b00) > qualities[masks.index(0)]
    assert best(0b01) > best(0b00) + 0.1
    assert best(0b11) >= best(0b01)


def test_a_build_again_asks_for_no_vector_again(built: Index, folder: Path) -> None:
    asked = (folder / "calls").read_text().splitlines()
    assert len({*asked}) == 300
    again = build(Project.from_mapping(terms(), folder=folder), output=folder / "b.pdx")
    assert (folder / "calls").read_text().splitlines() == asked
    assert (folder / "a.pdx").read_bytes() == (folder / "b.pdx").read_bytes()
    assert again.version == built.version


def test_an_interrupted_build_keeps_the_vectors_that_came(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    stops = "    if calls.stat().st_size > 2000: raise KeyboardInterrupt\n    what ="
    one_by_one = CALLS.replace("keep_s=60", "at_once=1")
    (tmp_path / "calls.py").write_text(one_by_one.replace("    what =", stops, 1))
    with pytest.raises(KeyboardInterrupt):
        build(project)
    (tmp_path / "calls.py").rename(tmp_path / "stopping.py")
    first = [*(tmp_path / "calls").read_text().splitlines()]
    stopping = (tmp_path / "stopping.py").read_text()
    (tmp_path / "calls.py").write_text(stopping)
    with pytest.raises(KeyboardInterrupt):
        build(project)
    second = (tmp_path / "calls").read_text().splitlines()[len(first) :]
    # the call that was interrupted is made again, and no other
    assert first[-16:] == second[:16]
    assert not {*first[:-16]} & {*second}


def test_items_without_a_vector_are_left_out_or_stop_the_build(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    lines = (tmp_path / "texts.jsonl").read_text().splitlines()
    lines[7] = '{"text": "nothing to say 5", "label": "good"}'
    (tmp_path / "texts.jsonl").write_text("\n".join(lines))
    alone = CALLS.replace("batch=16", "batch=1")
    (tmp_path / "calls.py").write_text(alone)
    (left_out,) = package_of(build(project)).meta["skipped"]
    assert left_out == ["texts.jsonl, line 8", "a fetch has brought no vector for it"]
    data = {"texts": "texts.jsonl", "on_bad_item": "stop"}
    with pytest.raises(BadProject, match=r"line 8: a fetch has brought no vector"):
        build(Project.from_mapping(terms() | {"data": data}, folder=tmp_path))


def test_vectors_of_items_in_memory_are_fetched(tmp_path: Path) -> None:
    project = make_project(tmp_path, data={})
    rng = np.random.default_rng(1)
    numbers = rng.integers(1 << 20, size=120).tolist()
    texts = [f"{'A' * (k % 3)} say {n:x}" for k, n in enumerate(numbers)]
    labels = ["good" if n % 7 > 3 else "bad" for n in numbers]
    names = [str(k) for k in range(len(texts))]
    items = [make_item(text) for text in texts]
    dataset = make_dataset(items, names, labels, [None] * len(texts))
    index = build(project, dataset=dataset)
    assert float(index.qualities.max()) > 0.9


def test_a_notebook_may_build(tmp_path: Path) -> None:
    project = make_project(tmp_path)

    async def cell() -> Index:
        return build(project)

    assert package_of(asyncio.run(cell())).fetches


def test_wide_vectors_are_reduced(tmp_path: Path) -> None:
    fetches = terms()["fetches"]
    fetches["embedding"]["most_columns"] = 2
    index = build(make_project(tmp_path, fetches=fetches), output=tmp_path / "a.pdx")
    (stored,) = (o for o in package_of(index).features if o.name == "embedding")
    assert (stored.width, stored.reduced.columns) == (2, 4)
    # `strength` reads the vector as it came
    assert package_of(index).fetches[0].width == 4
    read = Index.load(tmp_path / "a.pdx")
    extractor = package_of(read).extractor([tmp_path / "calls.py"])
    item = replace(make_item("A say 5"), brought={"embedding": np.ones(4, np.float32)})
    row = extractor.extract(item, features=[1, 2])
    assert row[extractor.columns(1)].tolist() == [1.0]


def test_images_have_vectors_too(tmp_path: Path) -> None:
    import io

    from PIL import Image

    code = """
from polydom.features import fetch

@fetch(kind="image", width=2)
async def embedding(images, left_s):
    return [[float(image[-3]), 1.0] for image in images]
"""
    (tmp_path / "calls.py").write_text(code)
    rng = np.random.default_rng(0)
    items, labels = [], []
    for k in range(120):
        pixels = rng.integers(0, 255, (8, 8 + k % 5, 3), np.uint8)
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "PNG")
        secret = int(rng.integers(0, 255))
        items.append(make_item(file.getvalue() + bytes([secret, 0, 0])))
        labels.append("odd" if secret > 127 else "even")
    content = {
        "features": {"use": ["dimensions"]},
        "fetches": {"embedding": {"from": "calls.py"}},
        "learner": {"name": "logistic"},
        "costs": {"items": 8, "repeats": 2},
        "exits": "off",
        "workers": 1,
    }
    project = Project.from_mapping(content, folder=tmp_path)
    names = [str(k) for k in range(120)]
    dataset = make_dataset(items, names, labels, [None] * 120)
    index = build(project, dataset=dataset)
    assert float(index.qualities.max()) > 0.9


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a key": (
        {
            "fetches": {
                "embedding": {"key": ["id"], "columns": ["x"], "from": "calls.py"}
            }
        },
        "[fetches.embedding] has a key and columns, which are of records",
    ),
    "half": (
        {"fetches": {"embedding": {"key": ["id"], "from": "calls.py"}}},
        "[fetches.embedding] has no columns",
    ),
    "no source": (
        {"fetches": {"embedding": {"times": "times.csv"}}},
        "[fetches.embedding] needs `from`, a file with the call",
    ),
    "unknown": (
        {"fetches": {"embeding": {"from": "calls.py"}}},
        "calls.py has no fetch 'embeding'",
    ),
    "needed by a feature alone": (
        {"fetches": {"mood": {"from": "calls.py"}}},
        "feature 'strength' needs the vector of fetch 'embedding'; a table",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_contradictions_are_refused_with_a_sentence(name: str, tmp_path: Path) -> None:
    change, message = REFUSED[name]
    with pytest.raises(BadProject, match=re.escape(message)):
        build(make_project(tmp_path, **change))


def test_a_fetch_of_another_kind_is_refused(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    (tmp_path / "calls.py").write_text(
        CALLS.replace('kind="text", width=1', 'kind="image", width=1')
    )
    with pytest.raises(BadFetch, match="'mood' is for image items; one for text items"):
        build(project)
    table = {"table": "table.csv"}
    (tmp_path / "table.csv").write_text("a,label\n1,x\n2,y\n")
    with pytest.raises(BadProject, match="needs key and columns: which columns"):
        Project.from_mapping(terms() | {"data": table}, folder=tmp_path)


def test_an_unknown_feature_is_refused_before_any_call(tmp_path: Path) -> None:
    features = {"use": ["shout", "embedding"], "files": ["calls.py"]}
    with pytest.raises(BadFeature, match="no feature 'shout'; did you mean 'shouts'"):
        build(make_project(tmp_path, features=features))
    assert not (tmp_path / "calls").exists()


def test_a_check_makes_no_call(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    lines = check_data(project, Silence()).lines()
    asked = "a build asks for at most 500, for 0.005 usd, and keeps them"
    assert f"fetch 'embedding' brings a vector for each item: {asked}" in lines
    assert not (tmp_path / "calls").exists()


def test_calls_that_fail_stop_the_build_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polydom.features.fetches.vector_calls.PAUSES_S", (0.001,))
    project = make_project(tmp_path)
    (tmp_path / "calls.py").write_text(
        CALLS.replace("what = texts[0].split()[0]", 'what = "raises"')
    )
    with pytest.raises(
        BadProject, match="brought nothing for the first 300 items"
    ) as e:
        build(project)
    assert "OSError: no route" in str(e.value)
    assert [*load_fetches([tmp_path / "calls.py"])] == ["embedding", "mood"]


def test_what_is_told_counts_on_work_beside_the_waiting(built: Index) -> None:
    package = package_of(built)
    after_s, (_, largest) = answering_s(built), built.sizes
    dearest_s = float(costs_at(built.coefficients, largest).max())
    assert 0 < after_s < dearest_s
    # what is left after the waiting is the vectors, what needs them, and a model
    assert after_s >= float(package.model_s.max())
    everything = expected_of(built, Arrivals(built), 10.0)
    assert everything.came == [1.0, 1.0]
    assert everything.quality == float(built.qualities.max())
