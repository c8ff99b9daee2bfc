"""From PROJECT.toml to an index, hop by hop."""
