"""The offline commands: init, build, measure, select, inspect, features."""
