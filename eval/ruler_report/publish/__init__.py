"""Results on the Hub: predictions as a dataset, scores on the model's page."""
