"""Answers to many items that share one budget of time or money."""
