"""Compiled code that divides groups of items."""
