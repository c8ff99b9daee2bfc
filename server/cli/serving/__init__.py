"""Commands that serve indexes, and compile code for it ahead of time."""
