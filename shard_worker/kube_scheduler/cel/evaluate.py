"""Evaluation of CEL, the language in which device classes and claims select devices.

A separate implementation (docs/decisions/0033): strictly typed and bounded in depth, size and
steps, so that no selector can stall a scheduler. The only variable is ``device``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from shard_worker.kube_scheduler.cel.functions import FUNCTIONS
from shard_worker.kube_scheduler.cel.syntax import parse
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
from shard_worker.kube_scheduler.cel.values import arithmetic, as_whole, equal, kind, ordered
from shared.byte_cache import MIB, byte_cache

STEPS = 20_000
"""Maximum cost of one evaluation: a step for each node visited, and for each 64 characters or
elements produced."""
ORDER = frozenset({"<", "<=", ">", ">="})


class Domains(dict[str, object]):
    """Attributes or capacities by domain. A domain that the device lacks is an empty map."""


class Program:
    """A parsed expression over ``device``. Raises CelError if the text is not an expression."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._tree = parse(text, variables=frozenset({"device"}), functions=frozenset(FUNCTIONS))

    def value(self, device: object) -> object:
        """The expression's value for a device. Raises CelError."""
        return _Evaluation({"device": device}).value(self._tree)

    def holds(self, device: object) -> bool:
        """Whether the expression is true for the device. Raises CelError, also if the value is not
        a bool."""
        value = self.value(device)
        if isinstance(value, bool):
            return value
        raise CelError(f"the selector comes to a value of kind {kind(value)}, not to true or false")


@byte_cache("cel-programs", 8 * MIB)
def compiled(text: str) -> Program | CelError:
    """The parsed program, or the parse error. Cached."""
    try:
        return Program(text)
    except CelError as error:
        return CelError(str(error))


class _Evaluation:
    def __init__(self, variables: Mapping[str, object]) -> None:
        self._left = STEPS
        self._variables = dict(variables)

    def _spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise CelError("the expression takes too long")

    def value(self, node: Node) -> object:
        self._spend(1)
        match node:
            case Literal(value):
                return value
            case Name(name):
                if name in self._variables:
                    return self._variables[name]
                raise CelError(f"there is no variable {name}")
            case Select(of, field):
                return _selected(self.value(of), field)
            case Has(of, field):
                return _has(self.value(of), field)
            case Index(of, key):
                return _indexed(self.value(of), self.value(key))
            case ListOf(items):
                return [self.value(item) for item in items]
            case MapOf(pairs):
                return self._map(pairs)
            case _:
                return self._worked_out(node)

    def _worked_out(self, node: Call | Fold | Bind | Logic | Chain | Sign | Choose) -> object:
        match node:
            case Call():
                return self._call(node)
            case Fold():
                return self._fold(node)
            case Bind(name, value, body):
                return self._with(name, self.value(value), body)
            case Logic(op, operands):
                return self._decided(op == "||", (partial(self._holds, of) for of in operands))
            case Chain():
                return self._chain(node)
            case Sign(op, of):
                return _signed(op, self.value(of))
            case Choose(when, then, other):
                return self.value(then if self._holds(when) else other)

    # --- operators ------------------------------------------------------------------------------

    def _holds(self, node: Node) -> bool:
        return _truth(self.value(node))

    def _decided(self, decides: bool, operands: Iterable[Callable[[], bool]]) -> bool:
        """``&&`` and ``||``, ``all`` and ``exists``: an operand that is ``decides`` decides the
        result, and overrules errors of others."""
        failure: CelError | None = None
        for holds in operands:
            try:
                if holds() is decides:
                    return decides
            except CelError as error:
                failure = error
                # One error is not overruled: that the steps are used up (decision 0033).
                self._spend(0)
        try:
            if failure is not None:
                raise failure
        finally:
            failure = None  # else its traceback and this frame hold each other
        return not decides

    def _chain(self, node: Chain) -> object:
        value = self.value(node.first)
        for op, operand in node.rest:
            value = self._operate(op, value, self.value(operand))
        return value

    def _operate(self, op: str, left: object, right: object) -> object:
        self._spend(1 + _length(left) + _length(right))
        if op == "==":
            return equal(left, right)
        if op == "!=":
            return not equal(left, right)
        if op == "in":
            return _contains(right, left)
        if op in ORDER:
            return ordered(op, left, right)
        return arithmetic(op, left, right)

    # --- calls and macros -----------------------------------------------------------------------

    def _call(self, node: Call) -> object:
        args = [self.value(arg) for arg in node.args]
        name = node.name
        if node.target is not None:
            args.insert(0, self.value(node.target))
            name = f".{name}"
        self._spend(sum(map(_length, args)))
        # RE2's time grows with the text, 64 characters of which cost any other function one step.
        if name.removeprefix(".") == "matches":
            self._spend(sum(len(arg) for arg in args if isinstance(arg, str)))
        try:
            result = FUNCTIONS[name](*args)
        except TypeError:
            raise CelError(f"{name}() does not take {len(node.args)} arguments") from None
        self._spend(_length(result))
        return result

    def _map(self, pairs: tuple[tuple[Node, Node], ...]) -> dict[object, object]:
        result: dict[object, object] = {}
        for key_node, node in pairs:
            key = self.value(key_node)
            if isinstance(key, bool) or not isinstance(key, str | int | Uint):
                raise CelError(f"a {kind(key)} cannot be a key")
            result[key] = self.value(node)
        return result

    def _with(self, name: str, value: object, body: Node) -> object:
        """Evaluate ``body`` with the variable bound to this value."""
        outer = self._variables
        self._variables = {**outer, name: value}
        try:
            return self.value(body)
        finally:
            self._variables = outer

    def _fold(self, node: Fold) -> object:
        over = self.value(node.over)
        if not isinstance(over, list | dict):
            raise CelError(f"{node.kind}() is not of a {kind(over)}")
        items = list(over)
        if node.kind == "map":
            chosen = (i for i in items if node.where is None or self._true(node, i, node.where))
            return [self._with(node.name, item, node.body) for item in chosen]
        if node.kind == "filter":
            return [item for item in items if self._true(node, item, node.body)]
        if node.kind == "exists_one":
            return sum(self._true(node, item, node.body) for item in items) == 1
        holding = (partial(self._true, node, item, node.body) for item in items)
        return self._decided(node.kind == "exists", holding)

    def _true(self, node: Fold, item: object, body: Node) -> bool:
        return _truth(self._with(node.name, item, body))


def _truth(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise CelError(f"true or false wanted, not {kind(value)}")


def _signed(op: str, value: object) -> object:
    if op == "!":
        return not _truth(value)
    if isinstance(value, float):
        return -value
    if isinstance(value, int) and not isinstance(value, bool):
        return as_whole(-value)
    raise CelError(f"there is no -{kind(value)}")


def _selected(value: object, field: str) -> object:
    if not isinstance(value, dict):
        raise CelError(f"a {kind(value)} has no fields")
    if field in value:
        member: object = value[field]
        return member
    # As in Kubernetes: a selector may name the domain of another driver, and finds no field there.
    if isinstance(value, Domains):
        return {}
    raise CelError(f"no such key: {field}")


def _has(value: object, field: str) -> bool:
    if not isinstance(value, dict):
        raise CelError(f"a {kind(value)} has no fields")
    return field in value


def _indexed(value: object, key: object) -> object:
    if isinstance(value, list):
        if isinstance(key, int) and not isinstance(key, bool) and 0 <= key < len(value):
            return value[key]
        raise CelError("a list has no such element")
    if isinstance(value, dict):
        if isinstance(key, str):
            return _selected(value, key)
        if isinstance(key, int | Uint) and not isinstance(key, bool) and key in value:
            element: object = value[key]
            return element
        raise CelError("no such key")
    raise CelError(f"a {kind(value)} has no elements")


def _contains(value: object, item: object) -> bool:
    if isinstance(value, list):
        return any(equal(item, element) for element in value)
    if isinstance(value, dict):
        return any(equal(item, key) for key in value)
    raise CelError(f"nothing is in a {kind(value)}")


def _length(value: object) -> int:
    """The cost in steps of producing a value."""
    return len(value) // 64 if isinstance(value, str | bytes | list | dict) else 0
