"""From PROJECT.toml to an index, stage by stage."""
