"""How a row is filled: from a question and a haystack to exactly as many tokens as it may have."""
