"""Compiled kernels that all models share: row preparation, class scores, tools."""
