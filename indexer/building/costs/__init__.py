"""Costs of plans: times of features and models, taken here or on another machine."""
