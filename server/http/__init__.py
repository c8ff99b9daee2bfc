"""HTTP/1.1 as needed here: stamps, limits, bodies, replies, tokens, OpenAPI, counts."""
