"""The checker's rules and its report."""
