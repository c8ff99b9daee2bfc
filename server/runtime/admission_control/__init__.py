"""Which requests begin, wait or are refused under load."""
