"""Ensembles as sums of base models, and evaluators that stop early by a schedule."""
