"""Web pages: live charts of a server, reports, and the documentation of the API."""
