"""The Go module that builds the servers, and where what it built is kept."""
