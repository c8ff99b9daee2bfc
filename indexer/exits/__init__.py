"""Exits between the feature sets of a plan."""
