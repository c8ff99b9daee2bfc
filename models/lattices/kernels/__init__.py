"""Compiled lattices: plain, a row at a time, and their gradients."""
