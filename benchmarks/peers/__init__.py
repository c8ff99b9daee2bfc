"""What other tools do with the same: readers of tables, and contenders elsewhere."""

BENCHMARKS = ("exports", "reading")
