"""Edits of index files, and the uses of an index that must survive them."""
