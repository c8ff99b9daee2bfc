"""Clients of a server; they import nothing that computes."""
