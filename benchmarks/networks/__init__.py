"""What neural networks as features bring, and what they cost a server."""

BENCHMARKS: tuple[str, ...] = (
    "texts",
    "most_columns",
    "workers",
    "batches",
    "busy",
    "existing",
    "int8",
)
