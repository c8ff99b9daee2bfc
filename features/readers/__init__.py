"""Items out of folders, CSV, JSON Lines and Parquet."""
