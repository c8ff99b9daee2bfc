"""The search for feature sets to train: Poly-Dom (ICSP, algorithm 2), greedy (4)."""
