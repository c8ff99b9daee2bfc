"""Learners, and their models as flat arrays with compiled evaluators."""
