"""What all commands share: option types, errors with an exit code, loading when called."""
