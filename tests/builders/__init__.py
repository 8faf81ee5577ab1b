"""Objects for the tests of every room, so that each kind is written in one place."""
