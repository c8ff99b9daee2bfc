"""From an item and a budget to an outcome. No HTTP, no event loop."""
