"""One budget for many items."""
