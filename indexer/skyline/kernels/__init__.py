"""Compiled exact crossings of cost curves, lower envelopes and tests of dominance."""
