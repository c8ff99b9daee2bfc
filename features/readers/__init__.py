"""Readers of items: folders, CSV, JSON Lines and Parquet."""
