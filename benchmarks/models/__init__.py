"""How fast models are evaluated."""

BENCHMARKS = ("trees",)
