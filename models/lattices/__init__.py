"""Lattices (interpolated look-up tables), and the estimator that trains them."""
