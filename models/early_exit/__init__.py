"""Ensembles as sums of base models, and evaluators that stop as a schedule says."""
