"""Slow, obvious versions of the algorithms, to compare the fast ones with."""
