"""Evaluate an index on labelled items, and compare it with baselines and own models."""
