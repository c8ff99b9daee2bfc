"""Compiled: the next base model, chances and cuts of sums, following a schedule."""
