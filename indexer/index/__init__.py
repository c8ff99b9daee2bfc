"""What a server loads: the look-up, its file, its package, the any-time rule."""
