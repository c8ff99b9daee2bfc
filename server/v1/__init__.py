"""polydom's own API."""
