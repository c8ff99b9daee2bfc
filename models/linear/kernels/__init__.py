"""Compiled sums over a row's inputs: complete sums, and sums that may stop early."""
