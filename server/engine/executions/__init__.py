"""Executions: a plan's features computed against the clock, and the answer."""
