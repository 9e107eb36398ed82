"""Score answers: one table, a line for each row."""
