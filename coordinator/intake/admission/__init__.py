"""Validates each object against those accepted before; ``registry`` owns names and numbers."""
