"""What changes the fingerprint of a network's feature, and what does not."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from polydom.features.fingerprint import fingerprint
from polydom.features.networks.network import Network
from polydom.features.networks.pooled import Projection
from polydom.features.networks.session import File
from tests.support.indexes.with_networks import open_small


def fingerprints(network: Network) -> list[str]:
    """Return the fingerprints of the features of the two pieces."""
    return [fingerprint(network.feature(0, piece)) for piece in range(2)]


def other_model(position: int) -> Callable[[Network], Network]:
    """Let one byte of a model be another."""

    def change(network: Network) -> Network:
        models = [model.copy() for model in network.models]
        models[position][-1] ^= 1
        return replace(network, models=tuple(models))

    return change


def other_tokenizer(network: Network) -> Network:
    assert network.tokenizer is not None
    return replace(network, tokenizer=np.append(network.tokenizer, np.uint8(32)))


def other_facts(**changes: Any) -> Callable[[Network], Network]:
    def change(network: Network) -> Network:
        own = {
            name: msgspec.structs.replace(getattr(network.facts, name), **value)
            if isinstance(value, dict)
            else value
            for name, value in changes.items()
        }
        return replace(network, facts=msgspec.structs.replace(network.facts, **own))

    return change


@pytest.mark.parametrize(
    ("kind", "change", "changed"),
    [
        ("image", lambda network: replace(network), [False, False]),
        ("image", other_model(0), [True, True]),
        ("image", other_model(1), [False, True]),
        ("image", other_facts(providers=("x",)), [True, True]),
        ("image", other_facts(image={"offsets": [0.0, 0.0, 1e-9]}), [True, True]),
        ("image", other_facts(image={"resize": "crop"}), [True, True]),
        ("text", lambda network: replace(network), [False, False]),
        ("text", other_model(1), [False, True]),
        ("text", other_tokenizer, [True, True]),
        ("text", other_facts(text={"tokens": [9, 10]}), [True, True]),
    ],
)
def test_what_a_feature_needs_changes_its_fingerprint(
    kind: str, change: Callable[[Network], Network], changed: list[bool]
) -> None:
    before, after = (
        fingerprints(open_small(kind)),
        fingerprints(change(open_small(kind))),
    )
    assert [a != b for a, b in zip(before, after, strict=True)] == changed


def test_a_projection_changes_a_fingerprint() -> None:
    arrays = np.zeros(5, np.float32), np.ones((5, 2), np.float32)
    made = {
        fingerprint(open_small("image").feature(0, 1, one))
        for one in (None, Projection(*arrays), Projection(arrays[0] + 1, arrays[1]))
    }
    assert len(made) == 3


def test_a_file_is_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network may be tens of megabytes, and have ten features."""
    network, hashed = replace(open_small("text")), []
    usual = File.sha256.func  # type: ignore[attr-defined]

    def counted(file: File) -> str:
        hashed.append(len(file.content))
        return str(usual(file))

    monkeypatch.setattr(File.sha256, "func", counted)
    fingerprints(network)
    assert network.tokenizer is not None
    assert sorted(hashed) == sorted(map(len, [*network.models, network.tokenizer]))
