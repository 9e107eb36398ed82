"""The commands of the evaluator."""
