"""Labelled items of a project: read, described and divided."""
