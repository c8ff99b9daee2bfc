"""Compiled sums of linear terms: complete sums, and sums that may stop early."""
