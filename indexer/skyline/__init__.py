"""Find the skylines of all item sizes, and prune dominated candidates."""
