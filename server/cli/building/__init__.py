"""Commands that build indexes, and what builds need: data, learners and costs."""
