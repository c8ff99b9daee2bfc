"""The stages of a build, from PROJECT.toml to an index."""
