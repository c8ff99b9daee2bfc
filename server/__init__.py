"""Answers inside a time budget, over HTTP."""
