"""An object as it was written: document, kinds, metadata, labels, times."""
