"""Evaluation of an index on labelled items, compared with baselines and own models."""
