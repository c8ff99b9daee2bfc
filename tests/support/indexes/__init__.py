"""Small indexes that tests serve, and the features that they need."""
