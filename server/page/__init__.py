"""Pages for people: live pictures of a server, reports, the API's document."""
