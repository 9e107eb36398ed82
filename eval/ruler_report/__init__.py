"""From scores to what people read: statistics, comparisons, figures and pages."""
