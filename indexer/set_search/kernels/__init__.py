"""Compiled functions for Poly-Dom's sandwich rule, which skips needless trainings."""
