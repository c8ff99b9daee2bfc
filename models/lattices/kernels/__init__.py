"""Compiled lattices: any rows, one row at a time, and gradients."""
