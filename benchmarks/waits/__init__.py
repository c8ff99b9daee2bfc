"""What it brings to answer by the columns that a request's time lets come."""

BENCHMARKS = ("ahead", "outage", "overhead", "exact", "money", "hedge", "remote")
