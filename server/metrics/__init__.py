"""Metrics: names, help texts and counts, and the export to Prometheus."""
