"""Compiled searches in an index."""
