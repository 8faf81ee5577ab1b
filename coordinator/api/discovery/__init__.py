"""Discovery documents and OpenAPI."""
