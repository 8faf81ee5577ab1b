"""What the watches said, without I/O: pods and other objects, and what follows from them."""
