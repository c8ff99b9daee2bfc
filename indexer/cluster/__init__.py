"""Calls that other processes carry out, on this machine or on a cluster."""
