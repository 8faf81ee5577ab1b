"""Authentication and authorization: tokens, roles, and rights on objects."""
