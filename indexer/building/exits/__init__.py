"""Exits of plans: between feature sets, and inside a model."""
