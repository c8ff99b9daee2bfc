"""The file of an index: its bytes, what its arrays mean, and checks when it is read."""
