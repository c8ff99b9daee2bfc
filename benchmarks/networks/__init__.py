"""What neural networks as features bring, and what they cost a server."""

BENCHMARKS: tuple[str, ...] = ("texts", "workers", "batches", "busy")
