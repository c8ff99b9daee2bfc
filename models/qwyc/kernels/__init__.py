"""Compiled functions that fit schedules of early exits, and evaluate them."""
