"""HTTP/1.1 as it is needed here: stamps, limits, bodies, replies, tokens."""
