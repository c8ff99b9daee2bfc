"""Features of a project: chosen, learned from labelled items, computed."""
