"""Ensembles as sums of base models, and early exits that follow a schedule."""
