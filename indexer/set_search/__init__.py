"""Which feature sets to train: Poly-Dom (ICSP, algorithm 2), Greedy (4)."""
