"""Compiled searches of the index."""
