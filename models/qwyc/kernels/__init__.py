"""Compiled: which base model comes next, cuts of sorted rows, following a schedule."""
