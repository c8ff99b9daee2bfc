"""Run function calls in other processes, on this machine or on a cluster."""
