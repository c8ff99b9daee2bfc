"""Scoring of many items without a server, by one or several processes."""
