"""From scores to figures: means, intervals, effective lengths, comparisons."""
