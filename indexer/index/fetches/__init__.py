"""Fetches of an index: what they bring, when they come, and what that gains."""
