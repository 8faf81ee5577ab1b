"""Tables that others published, measured again: published and ours side by side."""
