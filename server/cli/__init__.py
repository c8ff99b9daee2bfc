"""The online commands: serve, plan, predict, score, evaluate."""
