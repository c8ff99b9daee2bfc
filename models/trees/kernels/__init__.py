"""Compiled walks through trees: plain, packed, with vectors, in batches."""
