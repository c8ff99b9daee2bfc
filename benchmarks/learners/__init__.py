"""Which learners, and which sets of features, a build chooses."""

BENCHMARKS = ("selection", "columns", "expected", "defaults")
