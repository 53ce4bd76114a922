"""One run: from a recipe to a folder that holds its weights, predictions and numbers."""
