"""What a server writes about its answers: an access log, and recorded answers."""
