"""Choose which feature sets to train: Poly-Dom and greedy (ICSP, algorithms 2, 4)."""
