"""Pages for people: what budgets buy, what the server does, the API's document."""
