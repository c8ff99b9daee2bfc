"""Indexes that benchmarks serve, with held-out items and usual requests for each."""
