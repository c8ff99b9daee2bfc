"""Calls carried out by other processes: of this machine, or of a cluster."""
