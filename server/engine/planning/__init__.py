"""Plans, and the planner that chooses one by what is left of a budget."""
