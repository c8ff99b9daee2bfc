"""The offline build, and the index it makes."""
