"""What early exits save, and whether they keep their promise."""

BENCHMARKS = ("exits", "qwyc", "promise", "rare", "forecasts")
