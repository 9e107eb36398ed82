"""What reports say in tables and words: figures and pages share it."""
