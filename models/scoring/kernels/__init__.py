"""Compiled preparation and links, and the tools that all kernels share."""
