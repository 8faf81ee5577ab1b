"""Parts shared by all handlers: responses, failures, health, media types, traces."""
