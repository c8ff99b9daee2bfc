"""What polydom promises, measured: python -m benchmarks lists what can be run."""
