"""polydom's own HTTP API."""
