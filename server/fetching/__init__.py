"""Fetches on the event loop: calls in flight, kept values, and arrival times."""
