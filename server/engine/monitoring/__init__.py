"""What the engine notes while it serves: cost drift, failures and audits."""
