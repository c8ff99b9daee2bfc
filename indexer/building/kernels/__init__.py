"""Compiled dealing of groups to parts."""
