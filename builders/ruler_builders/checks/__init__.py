"""Checks of the rows of one config from their text alone, independent of the generators."""
