"""Labelled items of a project: read, described, divided."""
