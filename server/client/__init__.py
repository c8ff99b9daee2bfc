"""Asks a server; imports nothing that computes."""
