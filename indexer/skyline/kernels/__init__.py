"""Compiled: exact crossings of cost curves, lower envelopes, dominance."""
