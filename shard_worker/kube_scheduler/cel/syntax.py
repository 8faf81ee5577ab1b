"""The CEL parser: from text to a tree.

A chain of left-associative operators becomes one node with all operands, so that the tree is no
deeper than the text's nesting, which is bounded. Names of functions and variables are checked here:
an unknown name is an error of the selector, whatever device it is applied to.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from shard_worker.kube_scheduler.cel.tree import (
    Bind,
    Call,
    CelError,
    Chain,
    Choose,
    Fold,
    Has,
    Index,
    ListOf,
    Literal,
    Logic,
    MapOf,
    Name,
    Node,
    Select,
    Sign,
    Uint,
)

LONGEST = 10 << 10
"""Maximum length of an expression in characters. As in Kubernetes, whose name for it is
CELSelectorExpressionMaxLength."""
DEEPEST = 32
"""Maximum nesting of brackets, calls and signs: parser and evaluation recurse with it."""
LONGEST_PATH = 64
"""Maximum number of selections and calls in a row."""


_FOLDS = frozenset({"all", "exists", "exists_one", "filter", "map"})
_RESERVED = frozenset(
    (
        *("as", "break", "const", "continue", "else", "false", "for", "function", "if", "import"),
        *("in", "let", "loop", "namespace", "null", "package", "return", "true", "var", "void"),
        "while",
    )
)
_CONSTANTS: dict[str, object] = {"true": True, "false": False, "null": None}
_TOKEN = re.compile(
    r"\s+|//[^\n]*"
    r"|(?P<number>0x[0-9a-fA-F]+[uU]?|(?:[0-9]+\.[0-9]+|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
    r"|[0-9]+[eE][+-]?[0-9]+|[0-9]+[uU]?)"
    r"|(?P<text>[rRbB]{0,2}(?:\"\"\".*?\"\"\"|'''.*?'''|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'))"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<op>&&|\|\||==|!=|<=|>=|[-+*/%!<>?:.,()\[\]{}])",
    re.DOTALL,
)
_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\'\"`?])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})"
    r"|([0-3][0-7]{2})|(.?))",
    re.DOTALL,
)
_SIMPLE = dict(zip("abfnrtv\\'\"`?", "\a\b\f\n\r\t\v\\'\"`?", strict=True))


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # number | text | name | op | end
    text: str


def parse(text: str, *, variables: frozenset[str], functions: frozenset[str]) -> Node:
    """Parse an expression. Raises CelError if it is malformed or uses unknown names.

    ``functions``: those called on a receiver as ``.name``, others by their name.
    """
    if len(text) > LONGEST:
        raise CelError(f"longer than {LONGEST} characters")
    return _Parser(_tokens(text), variables, functions).whole()


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise CelError(f"not understood at character {at + 1}: {text[at : at + 10]!r}")
        if match.lastgroup is not None:
            tokens.append(_Token(match.lastgroup, match.group()))
        at = match.end()
    return [*tokens, _Token("end", "the end")]


class _Parser:
    def __init__(
        self, tokens: list[_Token], variables: frozenset[str], functions: frozenset[str]
    ) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self._names = set(variables)
        self._functions = functions

    def whole(self) -> Node:
        node = self._expression()
        self._take("end")
        return node

    # --- tokens -------------------------------------------------------------------------------

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _advance(self) -> _Token:
        token = self._next
        self._at += 1
        return token

    def _take(self, kind: str, text: str = "") -> _Token:
        token = self._next
        if token.kind != kind or (text and token.text != text):
            raise CelError(f"{text or kind} expected, not {token.text!r}")
        return self._advance()

    def _accept(self, *texts: str) -> str:
        """Consume and return the next operator if it is one of these; else ""."""
        token = self._next
        if (token.kind == "op" and token.text in texts) or (
            token.kind == "name" and token.text == "in" and "in" in texts
        ):
            self._advance()
            return token.text
        return ""

    def _nested(self, parse: Callable[[], Node]) -> Node:
        self._depth += 1
        if self._depth > DEEPEST:
            raise CelError(f"nested deeper than {DEEPEST}")
        node = parse()
        self._depth -= 1
        return node

    # --- operators, the loosest first -----------------------------------------------------------

    def _expression(self) -> Node:
        return self._nested(self._choice)

    def _choice(self) -> Node:
        when = self._logic("||", lambda: self._logic("&&", self._relation))
        if not self._accept("?"):
            return when
        then = self._logic("||", lambda: self._logic("&&", self._relation))
        self._take("op", ":")
        return Choose(when, then, self._expression())

    def _logic(self, op: str, operand: Callable[[], Node]) -> Node:
        operands = [operand()]
        while self._accept(op):
            operands.append(operand())
        return Logic(op, tuple(operands)) if len(operands) > 1 else operands[0]

    def _relation(self) -> Node:
        return self._chain(("<", "<=", ">", ">=", "==", "!=", "in"), self._sum)

    def _sum(self) -> Node:
        return self._chain(("+", "-"), self._product)

    def _product(self) -> Node:
        return self._chain(("*", "/", "%"), self._signed)

    def _chain(self, ops: tuple[str, ...], operand: Callable[[], Node]) -> Node:
        first = operand()
        rest: list[tuple[str, Node]] = []
        while op := self._accept(*ops):
            rest.append((op, operand()))
        return Chain(first, tuple(rest)) if rest else first

    def _signed(self) -> Node:
        if self._accept("!"):
            return Sign("!", self._nested(self._signed))
        # One token with its number: -2**63 is an int, and 2**63 alone would be out of range.
        if self._next.text == "-" and self._tokens[self._at + 1].kind == "number":
            self._advance()
            return Literal(_number("-" + self._advance().text)) if self._plain() else self._minus()
        if self._accept("-"):
            return self._minus()
        return self._path()

    def _plain(self) -> bool:
        """Whether the number that was just read is not followed by a selection."""
        return self._tokens[self._at + 1].text not in (".", "[")

    def _minus(self) -> Node:
        return Sign("-", self._nested(self._signed))

    # --- paths ----------------------------------------------------------------------------------

    def _path(self) -> Node:
        node = self._primary()
        for _ in range(LONGEST_PATH):
            if self._accept("."):
                field = self._identifier()
                node = self._member(node, field) if self._accept("(") else Select(node, field)
            elif self._accept("["):
                node = Index(node, self._expression())
                self._take("op", "]")
            else:
                return node
        raise CelError(f"more than {LONGEST_PATH} selections after each other")

    def _identifier(self) -> str:
        name = self._take("name").text
        if name in _RESERVED:
            raise CelError(f"{name!r} is a reserved word")
        return name

    def _member(self, of: Node, name: str) -> Node:
        """Parse a call on the receiver ``of``, after its opening bracket."""
        if name in _FOLDS:
            return self._fold(of, name)
        if name == "bind" and of == Name("cel"):
            return self._bind()
        self._judge(of)
        if f".{name}" not in self._functions:
            raise CelError(f"there is no function .{name}()")
        return Call(name, of, self._arguments(")"))

    def _fold(self, over: Node, kind: str) -> Node:
        name = self._identifier()
        self._take("op", ",")
        body, where = self._with(name), None
        if kind == "map" and self._accept(","):
            where, body = body, self._with(name)
        self._take("op", ")")
        return Fold(kind, over, name, body, where)

    def _bind(self) -> Node:
        name = self._identifier()
        self._take("op", ",")
        value = self._expression()
        self._take("op", ",")
        body = self._with(name)
        self._take("op", ")")
        return Bind(name, value, body)

    def _with(self, name: str) -> Node:
        """Parse an expression in which this variable is defined too."""
        was_bound = name in self._names
        self._names.add(name)
        node = self._expression()
        if not was_bound:
            self._names.discard(name)
        return node

    def _arguments(self, end: str) -> tuple[Node, ...]:
        arguments: list[Node] = []
        if self._accept(end):
            return ()
        while True:
            arguments.append(self._expression())
            if not self._accept(","):
                break
            if end == "]" and self._next.text == end:
                break
        self._take("op", end)
        return tuple(arguments)

    def _judge(self, node: Node) -> None:
        if isinstance(node, Name) and node.name not in self._names:
            raise CelError(f"there is no variable {node.name}")

    # --- what stands alone ------------------------------------------------------------------------

    def _primary(self) -> Node:
        token = self._advance()
        match token.kind:
            case "number":
                return Literal(_number(token.text))
            case "text":
                return Literal(_text(token.text))
            case "name":
                return self._named(token.text)
            case _:
                return self._bracketed(token.text)

    def _bracketed(self, text: str) -> Node:
        match text:
            case "(":
                node = self._expression()
                self._take("op", ")")
                return node
            case "[":
                return ListOf(self._arguments("]"))
            case "{":
                return self._map()
            case _:
                raise CelError(f"a value expected, not {text!r}")

    def _named(self, name: str) -> Node:
        if name in _CONSTANTS:
            return Literal(_CONSTANTS[name])
        if name in _RESERVED:
            raise CelError(f"{name!r} is a reserved word")
        if self._accept("("):
            if name == "has":
                return self._has()
            if name not in self._functions:
                raise CelError(f"there is no function {name}()")
            return Call(name, None, self._arguments(")"))
        # No variable: only `cel.bind(...)` may follow, which `_member` takes apart.
        if name == "cel" and self._next.text == ".":
            return Name(name)
        node = Name(name)
        self._judge(node)
        return node

    def _has(self) -> Node:
        # The field itself is not evaluated: has() asks whether it could be.
        args = self._arguments(")")
        if len(args) != 1 or not isinstance(args[0], Select):
            raise CelError("has() wants the selection of a field, as in has(a.b)")
        return Has(args[0].of, args[0].field)

    def _map(self) -> Node:
        pairs: list[tuple[Node, Node]] = []
        while not self._accept("}"):
            key = self._expression()
            self._take("op", ":")
            pairs.append((key, self._expression()))
            if not self._accept(","):
                self._take("op", "}")
                break
        return MapOf(tuple(pairs))


def _number(text: str) -> object:
    """The value of a number token: int64, uint64 or double."""
    body, unsigned = text.rstrip("uU"), text[-1] in "uU"
    if "x" not in body and any(mark in body for mark in ".eE"):
        return float(body)
    value = int(body, 0 if "x" in body else 10)
    if unsigned and 0 <= value < 2**64:
        return Uint(value)
    if unsigned or not -(2**63) <= value < 2**63:
        raise CelError(f"the number {text} is too large")
    return value


def _text(token: str) -> object:
    """The value of a string token: bytes with the prefix ``b``, else a string."""
    quote = min(token.find("'") % (len(token) + 1), token.find('"') % (len(token) + 1))
    prefix = token[:quote].lower()
    width = 3 if token[quote : quote + 3] in ("'''", '"""') and len(token) >= quote + 6 else 1
    body = token[quote + width : -width]
    if prefix in ("rr", "bb"):
        raise CelError(f"there is no text of kind {prefix}")
    if "r" not in prefix:
        body = _ESCAPE.sub(_unescape, body)
    return body.encode() if "b" in prefix else body


def _unescape(match: re.Match[str]) -> str:
    simple, two, four, eight, octal, unknown = match.groups()
    if simple:
        return _SIMPLE[simple]
    if unknown is not None:
        raise CelError(f"unknown escape \\{unknown}")
    code = int(octal, 8) if octal else int(two or four or eight, 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise CelError(f"no character has the number {code:#x}")
    return chr(code)
