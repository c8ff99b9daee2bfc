"""Compiled bounds of the sandwich rule."""
