"""Compiled preparation and links, and what all kernels share."""
