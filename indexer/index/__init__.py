"""The index that a server loads: its look-ups, package and facts, and any-time rule."""
