"""What there is to say of a machine's pace: by what factors costs were rescaled."""

from typing import Literal, NamedTuple

import msgspec

State = Literal["rescaled", "not_yet", "off", "no_time", "no_samples"]


class PartFactor(NamedTuple):
    """A factor, and what it belongs to: `part` is of a "feature", "step" and so on."""

    part: str
    name: str
    factor: float


class Rescaling(msgspec.Struct, frozen=True):
    """Whether costs are this machine's, and by how much they differ from the build's.

    Attributes
    ----------
    state
        "rescaled"; or why not: "not_yet" timed, turned "off", "no_time" among what the
        index counts, "no_samples" whose times the index knows.
    overhead, models
        How many times as long as where the index was built they take here.
    steps, features
        The same by name.
    """

    state: State
    overhead: float = 1.0
    models: float = 1.0
    steps: dict[str, float] = msgspec.field(default_factory=dict)
    features: dict[str, float] = msgspec.field(default_factory=dict)

    def parts(self) -> list[PartFactor]:
        """List every factor with what it belongs to."""
        return [
            PartFactor("overhead", "", self.overhead),
            PartFactor("models", "", self.models),
            *(PartFactor("step", *named) for named in self.steps.items()),
            *(PartFactor("feature", *named) for named in self.features.items()),
        ]
