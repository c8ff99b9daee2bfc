"""Costs of features: measured times, and polynomials of sizes fitted to the times."""
