"""Metrics: their names and help texts, the counts, and the export to Prometheus."""
