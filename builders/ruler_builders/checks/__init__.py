"""What is proved of the rows of one config, from their text alone."""
