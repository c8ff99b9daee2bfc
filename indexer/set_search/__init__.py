"""Which feature sets to train: Poly-Dom (ICSP, algorithm 2) and Greedy (algorithm 4)."""
