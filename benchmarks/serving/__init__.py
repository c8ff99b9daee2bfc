"""How a server keeps its budgets, and what it answers with."""

BENCHMARKS: tuple[str, ...] = (
    "headline",
    "drift",
    "predicted",
    "overload",
    "goodput",
    "soak",
    "requests",
    "operations",
    "batch",
    "hostile_bodies",
)
