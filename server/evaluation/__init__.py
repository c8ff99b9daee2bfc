"""Evaluate an index on labelled items; compare it with baselines and users' models."""
