"""Compiled kernels of lattices: for any rows, for one row, and for training."""
