"""Many items in this process, or in several."""
