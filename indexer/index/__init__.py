"""The index that a server loads: look-ups, package, facts, and the any-time rule."""
