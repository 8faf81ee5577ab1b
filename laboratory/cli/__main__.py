"""``python -m laboratory.cli``: the command ``quadrant``."""

from laboratory.cli.app import main

if __name__ == "__main__":
    main()
