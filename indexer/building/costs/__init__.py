"""Costs of plans: times of features and models, measured here or on another machine."""
