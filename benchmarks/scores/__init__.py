"""How right class scores are, and what thresholds of them find."""

BENCHMARKS = ("probabilities", "thresholds")
