"""Compiled loops of generators."""
