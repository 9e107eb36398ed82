"""Parts of a row: named randomness, segments with their tokens, haystacks, questions."""
