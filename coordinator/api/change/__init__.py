"""What a writing request makes of an object: its body, options and author. Pure."""
