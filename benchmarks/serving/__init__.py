"""How a server keeps its budgets, and what it answers with."""

BENCHMARKS: tuple[str, ...] = ()
