"""Web pages: live charts of a server, reports, and the API's documentation."""
