"""Compiled functions for the sandwich rule of Poly-Dom."""
