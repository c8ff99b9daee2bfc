"""Compiled scans and cuts over the running sums of many rows."""
