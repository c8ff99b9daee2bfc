"""Compiled sums over the inputs of a row."""
