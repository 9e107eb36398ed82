"""Run a model over rows: prompts, engines, journal."""
