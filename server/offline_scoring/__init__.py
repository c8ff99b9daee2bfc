"""Many items classified without a server: by this process, or by several."""
