"""What commands print: reports on indexes, evaluations and races, and their tables."""
