"""Compiled evaluation of trees: one module for each layout."""
