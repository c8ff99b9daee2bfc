"""Learners by name, and races that choose among learners."""
