"""Structures by which an operator rolls out a new index."""

from typing import Annotated, Literal

import msgspec

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
HeaderName = Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9-]{1,64}$")]


class RolloutAsk(msgspec.Struct, forbid_unknown_fields=True):
    """Body of `POST /v1/admin/rollout`: what is to become of a model's candidate.

    `model` is a model's name, by default the first model. `share` is the share of
    requests that the candidate gets, or is compared on, in [0, 1]. `by` names a header:
    requests with the same value of it go to the same version.
    """

    mode: Literal["off", "shadow", "canary", "promote", "roll_back"]
    model: str | None = None
    share: Share | None = None
    by: HeaderName | None = None


class RolloutFacts(msgspec.Struct):
    """What answers one model's requests.

    `version` is the checksum of the index that is served, `candidate` that of its
    candidate; null if none is loaded. `mode`, `share` and `by` are as ordered.
    """

    name: str
    version: str | None
    candidate: str | None
    mode: Literal["off", "shadow", "canary"]
    share: float
    by: str


class RolloutsFacts(msgspec.Struct):
    """Answer to an order: all models with a candidate, and a note on the order."""

    models: list[RolloutFacts]
    note: str = ""
