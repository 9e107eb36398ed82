"""The proof of the generators: what their prompts hold, recovered by code that shares nothing."""
