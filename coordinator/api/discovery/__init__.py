"""What the API says of itself: discovery documents and OpenAPI."""
