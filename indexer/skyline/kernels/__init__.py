"""Compiled comparisons of cost curves: crossings, lower envelopes and dominance."""
