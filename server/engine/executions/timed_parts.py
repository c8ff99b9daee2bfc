"""Times of the parts of one execution, for requests that are explained or traced."""

from polydom.features.extract import Extraction
from polydom.features.items import Item

from ..planning.planner import Planner
from ..request import Part, Request


class TimedExtraction(Extraction):
    """Another extraction, which adds a `Part` for each feature that is computed.

    `drift` is the factor by which plans are predicted to take longer here.
    """

    __slots__ = ("_drift", "_inner", "_parts", "_planner", "_request")

    def __init__(
        self,
        inner: Extraction,
        planner: Planner,
        request: Request,
        drift: float,
        parts: list[Part],
    ) -> None:
        self._inner, self._planner = inner, planner
        self._request, self._drift = request, drift
        self.row = inner.row
        self._parts = parts

    def compute(self, position: int) -> None:
        """Compute a feature as `Extraction.compute` does, and note what it takes."""
        planner, request = self._planner, self._request
        run = self.run_steps()
        planned = planner.rests.of_feature(position, request.item.size, run)
        began_s = planner.now()
        failed = True
        try:
            self._inner.compute(position)
            failed = False
        finally:
            part = Part(
                "feature",
                planner.package.features[position].name,
                began_s,
                planner.now(),
                planned * self._drift,
                request.budget.left(began_s),
                failed,
            )
            self._parts.append(part)

    def run_steps(self) -> int:
        """Return a mask of the steps that have a result."""
        return self._inner.run_steps() if self._planner.extractor.steps else 0

    def with_more(self, item: Item) -> Extraction:
        """Return this extraction for the item as it is now; results are kept."""
        self._inner = self._inner.with_more(item)
        return self


def read_part(planner: Planner, request: Request, drift: float, feature: int) -> Part:
    """Return the part of a feature that was read when its record was decoded."""
    now_s = planner.now()
    planned = planner.rests.of_feature(feature, request.item.size, 0) * drift
    name = planner.package.features[feature].name
    return Part("feature", name, now_s, now_s, planned, request.budget.left(now_s))
