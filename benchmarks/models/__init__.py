"""How fast models are evaluated."""

BENCHMARKS: tuple[str, ...] = ()
