"""Which learners, and which sets of features, a build chooses."""

BENCHMARKS = ("selection", "build", "expected", "defaults", "mixed")
