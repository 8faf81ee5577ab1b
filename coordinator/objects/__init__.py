"""Objects as the outside sees them: documents as written, with what became of them."""
