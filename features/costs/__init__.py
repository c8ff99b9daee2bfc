"""Costs of features: their measured times, and cost curves fitted to these times."""
