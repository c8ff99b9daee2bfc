"""Compiled division of groups into parts."""
