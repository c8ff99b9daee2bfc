"""The index that a server loads: its look-ups, file and package, the any-time rule."""
