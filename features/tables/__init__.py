"""Tables: cells, columns and their values, dates, and records made of them."""
