"""Reading objects: get, list, watch, server-sent events."""
