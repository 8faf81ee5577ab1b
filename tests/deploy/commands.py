"""Whether the command of a container is one that the image has, with options that it knows."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util

from coordinator.cluster.simulated import server


def check_command(command: list[str]) -> None:
    match command:
        case ["python", "-m", "coordinator.cluster.simulated.server", *rest]:
            server._parser().parse_args(rest)
        case ["bash", "-euc", script]:
            *_, last = script.strip().splitlines()
            assert last.startswith("exec "), "signals are for the last command, not for the shell"
            check_command(last.split()[1:])
        case ["python", "-m", module]:
            assert importlib.util.find_spec(module), f"no module {module}"
        case ["ray", "start", *rest]:
            check_ray_options(rest)
        case _:
            raise AssertionError(f"no known command: {command}")


def check_ray_options(options: list[str]) -> None:
    ray_options = ray_start_options()
    for option in options:
        name, equals, _ = option.partition("=")
        assert name in ray_options, f"ray start has no {name}"
        assert bool(equals) != ray_options[name], (
            f"{option}: a flag has no value, an option has one"
        )
    assert "--block" in options, "a container must not end"


@functools.cache
def ray_start_options() -> dict[str, bool]:
    """Option -> whether it is a flag."""
    from ray.scripts.scripts import start

    return {o: bool(getattr(p, "is_flag", False)) for p in start.params for o in p.opts}


def entry_points() -> set[str]:
    return {point.name for point in importlib.metadata.entry_points(group="console_scripts")}


def options_of(command: list[str]) -> dict[str, str]:
    """``--name=value`` options of a command; a flag's value is the empty string."""
    pairs = (word.partition("=") for word in command if word.startswith("--"))
    return {name: value for name, _, value in pairs}
