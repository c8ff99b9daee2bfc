"""Weighted sums, and naive Bayes."""
