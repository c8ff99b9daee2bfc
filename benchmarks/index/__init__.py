"""How sets of features are searched, indexed and looked up."""

BENCHMARKS = ("poly_dom", "anytime")
