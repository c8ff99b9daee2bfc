"""Compiled: the next base model, chances and cuts of sorted rows, following a schedule."""
