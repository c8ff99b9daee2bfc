"""Many items scored without a server, by one process or by many."""
