"""Labelled items of a project: reading, describing and dividing them."""
