"""Exact signs of cost differences, envelopes, and dominance."""
