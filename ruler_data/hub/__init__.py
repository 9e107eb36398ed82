"""The Hugging Face Hub; only this package imports its client."""
