"""The Common Expression Language (CEL): syntax, values, functions and evaluation."""
