"""The build: options in, a finished folder out."""
