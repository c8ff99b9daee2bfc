"""Interpolated look-up tables, and the estimator that learns them."""
