"""The skylines of all item sizes, and pruning of dominated candidates."""
