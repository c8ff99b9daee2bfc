"""Fitted learners, drawn ensembles, and arms of races."""
