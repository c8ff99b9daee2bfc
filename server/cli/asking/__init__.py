"""Commands that ask an index without a server."""
