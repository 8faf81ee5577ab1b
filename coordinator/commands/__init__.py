"""The subcommands of ``quadrant``. They import typer at once, and the rest when they run."""
