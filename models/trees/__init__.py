"""Sums of trees, evaluated a row or a batch at a time."""
