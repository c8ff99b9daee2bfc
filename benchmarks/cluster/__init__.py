"""What clusters cost, and what they save."""

BENCHMARKS = ("scale",)
