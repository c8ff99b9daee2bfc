"""Clients of the server, for Python programs; they need no numeric libraries."""
