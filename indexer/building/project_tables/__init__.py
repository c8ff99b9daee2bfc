"""The tables of PROJECT.toml, one a module: keys, defaults and checks."""
