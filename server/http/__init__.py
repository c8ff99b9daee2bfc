"""HTTP/1.1 for this server: arrival times, limits, bodies, replies and tokens."""
