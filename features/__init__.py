"""Items, the features that describe them, and what those cost."""
