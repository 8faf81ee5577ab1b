"""``python -m coordinator.cli``: the command ``quadrant``."""

from coordinator.cli.app import main

if __name__ == "__main__":
    main()
