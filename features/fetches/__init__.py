"""Fetches: awaited calls that bring columns of a record from elsewhere, by a key."""
