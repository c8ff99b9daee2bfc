"""What early exits save, and whether they keep their promise."""

BENCHMARKS = ("exits", "qwyc", "promise", "forecasts", "rare", "in_time")
