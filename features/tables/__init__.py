"""Tables: what their columns hold, the features these are, and records of them."""
