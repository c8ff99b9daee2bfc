"""Metrics: their names and helps, the counts, and the exposition to Prometheus."""
