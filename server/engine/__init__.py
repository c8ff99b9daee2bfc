"""Answer one item within a budget, without HTTP and without an event loop."""
