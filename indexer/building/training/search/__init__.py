"""Search among feature sets, and what a search overlooks or overrates."""
