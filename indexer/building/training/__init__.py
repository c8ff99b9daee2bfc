"""Feature sets: searched, trained, evaluated, and trained again on all items."""
