"""Compiled sums over the inputs of a row: whole sums, and sums that may stop early."""
