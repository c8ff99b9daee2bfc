"""How a server keeps its budgets, and what it answers with."""

BENCHMARKS: tuple[str, ...] = (
    "headline",
    "stretch",
    "drift",
    "overload",
    "requests",
    "operations",
    "batch",
    "page",
    "hostile_bodies",
)
