"""The offline commands: init, build, measure, select, features."""
