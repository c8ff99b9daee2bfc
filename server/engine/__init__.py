"""From an item and a budget to an outcome, without HTTP and without an event loop."""
