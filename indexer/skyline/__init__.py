"""Which candidates are on the skyline, for every item size."""
