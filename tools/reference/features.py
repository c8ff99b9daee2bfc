"""The features that come ready-made or are learned, and the learners by name."""

import io
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from polydom.features.extract import Extractor
from polydom.features.feature import Feature, Step
from polydom.features.items import Kind, image_item, text_item
from polydom.features.loading import ready_made_features
from polydom.features.ready_made.learned_text import RECIPES
from polydom.models.selection.learners import LEARNERS, Recipe
from polydom.models.selection.portfolio import (
    BOOSTED,
    BOOSTED_NUMBERS,
    NUMBERS,
    SERVABLE,
    Setting,
)
from tools.generated_parts import table
from tools.reference.project_keys import toml

HEAD = ("name", "columns", "steps", "what")


def parts() -> dict[str, str]:
    """Tables of features by kind, of steps, of learners and of what a race tries."""
    learned = ((f"`{r.name}`", f"`{r.terms.name}`", r.what) for r in RECIPES)
    return {
        "images": table(HEAD, ready_made("image")),
        "texts": table(HEAD, ready_made("text")),
        "learned": table(("name", "steps", "what"), learned),
        "steps": table(("step", "after", "what"), steps()),
        "classifiers": table(LEARNER_HEAD, learners(LEARNERS["classes"])),
        "regressors": table(LEARNER_HEAD, learners(LEARNERS["regression"])),
        "race of classes": table(SETTING_HEAD, settings(SERVABLE, BOOSTED)),
        "race of numbers": table(SETTING_HEAD, settings(NUMBERS, BOOSTED_NUMBERS)),
    }


LEARNER_HEAD = ("name", "estimator", "inputs", "set unless you do")
SETTING_HEAD = ("name", "`[learner]`")


def ready_made(kind: Kind) -> Iterator[tuple[str, str, str, str]]:
    """A row for each feature of items of a kind."""
    features = [one for one in ready_made_features() if one.kind == kind]
    widths = Extractor.probe(features, some_item(kind)).widths
    for feature, width in zip(features, widths, strict=True):
        needs = ", ".join(f"`{step.name}`" for step in feature.needs)
        yield f"`{feature.name}`", f"{width:,}", needs, sentence(feature)


def some_item(kind: Kind) -> Any:
    """An item to see by how many columns a feature has."""
    if kind == "text":
        return text_item("Meet me at seven. Or call 555-0100!")
    from PIL import Image

    file = io.BytesIO()
    Image.effect_noise((96, 64), 50).convert("RGB").save(file, "png")
    return image_item(file.getvalue())


def sentence(node: Feature | Step) -> str:
    """First paragraph of a function's docstring."""
    return " ".join((node.function.__doc__ or "").split("\n\n")[0].split())


def steps() -> Iterator[tuple[str, str, str]]:
    """A row for each step that features share, after those that it needs itself."""
    open_ = [step for one in ready_made_features() for step in one.needs]
    open_ += [recipe.terms for recipe in RECIPES]
    told: dict[str, Step] = {}

    def add(step: Step) -> None:
        for need in step.needs:
            add(need)
        told.setdefault(step.name, step)

    for step in open_:
        add(step)
    for name, step in told.items():
        needs = ", ".join(f"`{need.name}`" for need in step.needs)
        yield f"`{name}`", needs, sentence(step)


PREPARED = {
    "fill": "gaps filled",
    "standardise": "scaled to mean 0, deviation 1",
    "squeeze": "scaled to 0 ... 1",
}


def learners(known: Mapping[str, Recipe]) -> Iterator[tuple[str, str, str, str]]:
    """A row for each learner that has a name."""
    for name, (path, preparations, defaults) in known.items():
        inputs = ", ".join(PREPARED[one] for one in preparations) or "as they are"
        own = ", ".join(f"`{key} = {toml(to)}`" for key, to in defaults.items())
        estimator = path.removeprefix("polydom.models.lattices.estimator:")
        yield f"`{name}`", f"`{estimator.replace(':', '.')}`", inputs, own


def settings(*portfolios: Mapping[str, Setting]) -> Iterable[tuple[str, str]]:
    """A row for each setting that `auto` races."""
    for portfolio in portfolios:
        for name, setting in portfolio.items():
            yield name, f"`{toml(setting)[2:-2]}`"
