"""`[exits]`: early answers of plans."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from polydom.models.qwyc.promise import Sides

CONFIDENCE = 0.95  # default confidence in the shares of answers that exits change


class ExitTerms(Struct, frozen=True, forbid_unknown_fields=True):
    """Early answers of plans: after fewer features, or after fewer base models (QWYC).

    `exits = "off"` in place of the table turns early answers off.

    Attributes
    ----------
    alpha
        Share of each class's answers that may differ from the whole plan's answers;
        0.005 by default. It is a share of the items that the whole plan answers with
        this class, so that a rare class is as safe as others. Either one number, or a
        table by class, such as `{ fraud = 0.0, "*" = 0.01 }`, where `"*"` stands for
        all classes that are not named (0.005 by default). Exits are fitted on the
        held-out items. With `search.folds`, there are exits only if `alpha` is given.
        They are then fitted on all items, each answered by a model that was trained on
        the other folds.
    confidence
        Confidence that alpha holds for fresh items, for all classes together; 0.95 by
        default. Exits are calibrated on half of the held-out items, drawn in whole
        groups, which no other part of the build sees. A class with too few of these
        items, or of alpha 0, is never left early: no exit answers another class where
        the whole plan could answer this one. If the items of every class are too few,
        there are no exits, and the build reports how many items it needs. If
        `confidence` is 0, or with `search.folds`, alpha holds only for the items that
        exits are fitted on.
    sides
        For two classes, which of them may be answered early: "both", or "negative",
        the class that comes first in alphabetical order, so that all items of the other
        class are computed to the end (QWYC's filter-and-score), or "positive", the
        class that comes second.
    """

    alpha: (
        Annotated[float, Meta(ge=0, lt=1)]
        | dict[str, Annotated[float, Meta(ge=0, lt=1)]]
        | UnsetType
        | None
    ) = UNSET
    confidence: Annotated[float, Meta(ge=0, lt=1)] | UnsetType = UNSET
    sides: Sides = "both"
