"""Search for the feature sets to train: Poly-Dom (ICSP's algorithm 2), greedy (4)."""
