"""Who asks, and what they may: tokens, roles, authorization."""
