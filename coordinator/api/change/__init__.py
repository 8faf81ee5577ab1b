"""From a writing request to the object to admit: body, options and author. Pure functions."""
