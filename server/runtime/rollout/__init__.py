"""Two versions of a model at once: orders of the operator, shares, and index files."""
