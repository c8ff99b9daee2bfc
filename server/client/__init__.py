"""Clients of a server; they need no numeric libraries."""
