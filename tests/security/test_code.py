"""No form that can bring code is ever read: it is not even imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(
    f for room in ("coordinator", "shard_worker", "shared") for f in (ROOT / room).rglob("*.py")
)
MODULES = frozenset(
    (
        "pickle",
        "_pickle",
        "cloudpickle",
        "dill",
        "marshal",
        "shelve",
        "copyreg",
        "joblib",
        "jsonpickle",
    )
)
"""They build whatever the bytes say; so do the calls below."""
CALLS = frozenset(("eval", "exec", "compile", "__import__"))
OF_YAML = frozenset(("load_all", "full_load", "unsafe_load", "unsafe_load_all"))


def forbidden_uses(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names if name.name.split(".")[0] in MODULES)
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in MODULES:
                yield module
            case ast.Call(func=ast.Name(id=name)) if name in CALLS:
                yield name
            case ast.Call(func=ast.Attribute(value=ast.Name(id="yaml"), attr=name)) if (
                name in OF_YAML
            ):
                yield f"yaml.{name}"
            case ast.keyword(arg="allow_pickle", value=ast.Constant(value=True)):
                yield "allow_pickle"
            case ast.keyword(arg="shell", value=ast.Constant(value=True)):
                yield "shell"
            case ast.keyword(arg="object_hook" | "ext_hook"):
                yield "a hook that builds what the bytes say"
            case _:
                pass


def test_nothing_here_reads_what_can_bring_code() -> None:
    wrong = {f: list(forbidden_uses(ast.parse(f.read_text()))) for f in FILES}
    assert len(FILES) > 200
    assert {str(f.relative_to(ROOT)): what for f, what in wrong.items() if what} == {}


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from pickle import loads",
        "import marshal as m",
        "eval('1')",
        "yaml.unsafe_load(x)",
        "numpy.load(f, allow_pickle=True)",
        "msgpack.unpackb(x, ext_hook=f)",
        "subprocess.run(x, shell=True)",
    ],
)
def test_it_would_be_found(code: str) -> None:
    assert list(forbidden_uses(ast.parse(code)))
