"""The project file that `polydom init` writes."""

import tomllib
from pathlib import Path

from polydom.features.items import Kind

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
# learners that do well on a kind of items without any parameter
LEARNERS = {"images": "lda", "texts": "logistic", "table": "hist_boosting"}
# scores of learned features are highly correlated: a stronger penalty suits them
TEXT_C = "C = 0.1                  # any parameter of the learner\n"


def default_features(kind: Kind) -> list[str]:
    """Return the names of features that a new project has; none for records."""
    sources = {"image": "images", "text": "texts", "record": "table"}
    found: list[str] = tomllib.loads(template(sources[kind]))["features"].get("use", [])
    return found


def template(source: str) -> str:
    """Return the text of a PROJECT.toml for "images", "texts" or a "table"."""
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
    return "".join(lines)
