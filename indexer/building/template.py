"""The project file that `polydom init` writes."""

import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from polydom.features.errors import BadFeature
from polydom.features.items import Kind
from polydom.features.networks.guess import guess_terms
from polydom.features.networks.open_network import read_network

TEMPLATE = Path(__file__).with_name("template.toml").read_text(encoding="utf-8")

TEXT_FEATURES = """\
use = [
    "text_length", "punctuation", "casing", "learned_opening", "learned_words",
    "learned_word_pairs", "learned_ngrams", "learned_all_ngrams",
]
"""
TABLE_FEATURES = """\
# By default every column is a feature. A column of free text, here `note`, also has the
# features of texts: use = ["note: learned_words", "note: text_length"]
"""
NETWORKS = "# [[features.networks]]"  # begins its lines in the template
IMAGENET = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
# learners that do well on a kind of items without any parameter
LEARNERS = {"images": "lda", "texts": "logistic", "table": "hist_boosting"}
# scores of learned features are highly correlated: a stronger penalty suits them
TEXT_C = "C = 0.1                  # any parameter of the learner\n"


def default_features(kind: Kind) -> list[str]:
    """Return the names of features that a new project has; none for records."""
    sources = {"image": "images", "text": "texts", "record": "table"}
    found: list[str] = tomllib.loads(template(sources[kind]))["features"].get("use", [])
    return found


def template(source: str, network: Mapping[str, Any] | None = None) -> str:
    """Return the text of a PROJECT.toml for "images", "texts" or a "table".

    `network` has the keys of a table `[[features.networks]]` to be filled in.
    """
    lines = TEMPLATE.splitlines(keepends=True)
    first = lines.index("use = [\n")
    last = lines.index("]\n", first)
    if source == "texts":
        lines[first : last + 1] = [TEXT_FEATURES]
        (at,) = (n for n, line in enumerate(lines) if line.startswith("# C = "))
        lines[at] = TEXT_C
    elif source == "table":
        lines[first : last + 1] = [TABLE_FEATURES]
    (at,) = (n for n, line in enumerate(lines) if line.startswith('name = "logistic"'))
    usual, own = '"logistic"', f'"{LEARNERS[source]}"'
    room = " " * (len(usual) - len(own))
    lines[at] = lines[at].replace(
        usual + " " * max(len(own) - len(usual), 0), own + room
    )
    for number, line in enumerate(lines):
        if line.startswith("images = ") and source != "images":
            lines[number] = f"# {line}"
        elif line.startswith(f"# {source} = "):
            lines[number] = line.removeprefix("# ")
    if network is not None:
        first = next(n for n, line in enumerate(lines) if line.startswith(NETWORKS))
        last = lines.index("\n", first)
        lines[first:last] = _filled(lines[first:last], source, network)
        # A network brings many features, so there are many more sets to try.
        (at,) = (n for n, line in enumerate(lines) if line.startswith("# budget_s = "))
        lines[at] = lines[at].removeprefix("# ")
    return "".join(lines)


def _filled(
    lines: Sequence[str], source: str, network: Mapping[str, Any]
) -> Iterator[str]:
    """Yield the lines of `[[features.networks]]` with the values of a network.

    Keys without a value stay commented out. Keys whose comment begins with another kind
    of items are left out.
    """
    others = {"images:", "texts:", "table:"} - {f"{source}:", f"{network['kind']}s:"}
    yield f"{'[[features.networks]]':<25}# a neural network: its pieces are features\n"
    shown = False
    for line in lines:
        if found := re.match(r"# (\w+) = .*? # ((\S+).*)", line):
            key, comment, first = found.groups()
            shown = key in network or first not in others
            if key in network:
                value = json.dumps(network[key])
                line = f"{f'{key} = {value}':<24} # {comment}\n"
        if shown:
            yield line


def network_keys(
    source: str, file: Path, tokenizer: Path | None, folder: Path
) -> dict[str, Any]:
    """Return the keys of `[[features.networks]]` for a network, with their values.

    `source` is "images", "texts" or a "table"; a network with a tokenizer reads a
    table's columns of texts. Paths in the result begin in `folder`. Raises BadFeature
    if the file is no ONNX file, or cannot be run on such items.
    """
    needed: dict[str, Kind] = {"images": "image", "texts": "text"}
    reads_texts: Kind | None = None if tokenizer is None else "text"
    terms = guess_terms(file, needed.get(source, reads_texts), tokenizer)
    if source == "table" and terms.kind == "image":
        raise BadFeature(f"{file} reads images, and a table has records")
    facts = read_network(terms).facts
    keys: dict[str, Any] = {
        "name": terms.name,
        "file": _relative(file, folder),
        "kind": terms.kind,
    }
    if facts.image is not None:
        if facts.variants > 1:
            keys["sides"] = [height for height, _ in facts.image.sizes]
        if facts.image.channels == 3 and facts.image.dtype != "uint8":
            keys |= IMAGENET
    if facts.text is not None:
        assert tokenizer is not None
        keys["tokenizer"] = _relative(tokenizer, folder)
        if facts.variants > 1:
            keys["tokens"] = facts.text.tokens
    if terms.columns:
        keys["columns"] = terms.columns
    return keys | {"outputs": terms.outputs}


def _relative(file: Path, folder: Path) -> str:
    return Path(os.path.relpath(file.resolve(), folder.resolve())).as_posix()
