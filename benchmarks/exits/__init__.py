"""What early exits save, and whether they keep their promise."""

BENCHMARKS = ("exits", "served_exits", "qwyc", "promise")
