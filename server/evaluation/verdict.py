"""What a gate asks the process that compares two indexes, and what it is told."""

import msgspec


class Question(msgspec.Struct):
    """What the process that compares is asked."""

    old: str  # `old`, `new`: paths of the two indexes
    new: str
    test: str  # Path of the labelled items
    label: str  # Column or key with the labels
    features: list[str]  # Files with features of the operator
    budget_s: float


class Verdict(msgspec.Struct):
    """The outcome of a comparison."""

    old: float  # `old`, `new`: quality of the two indexes
    new: float
    error: float  # Standard error of the difference; 0 for a single item
    items: int
    measure: str
    versions: tuple[str, str]

    @property
    def worse(self) -> bool:
        """True if the new index is worse by more than the standard error."""
        return self.new - self.old < -self.error
