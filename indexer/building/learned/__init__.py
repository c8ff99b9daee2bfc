"""Features that are learned from labelled items."""
