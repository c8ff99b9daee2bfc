"""Which feature sets are trained, on which items, and how good they are."""
