"""CEL: syntax, values, functions and evaluation."""
