"""What a server counts, and how Prometheus reads it, of one worker or of all."""
