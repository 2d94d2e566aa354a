"""The syntax tree of a formula."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sfcdc_assets.emulator.formulas.value import Value


@dataclass(frozen=True)
class Constant:
    """A number, a text, true, false or null."""

    value: Value


@dataclass(frozen=True)
class Reference:
    """A field of the record or of one of its parents, as it is written: `Account.Owner.Name`."""

    path: str

    @property
    def key(self) -> str:
        """The same for the same field: names of fields have no case."""
        return self.path.lower()


@dataclass(frozen=True)
class Call:
    """A function, in upper case, and its arguments."""

    function: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True)
class Chain:
    """Operators of one precedence, computed from left to right."""

    first: Node
    rest: tuple[tuple[str, Node], ...]


@dataclass(frozen=True)
class Prefixed:
    """Signs and negations before an operand, the outermost first: `+`, `-` or `!`."""

    prefixes: tuple[str, ...]
    operand: Node


Node = Constant | Reference | Call | Chain | Prefixed


def nodes_of(root: Node) -> Iterator[Node]:
    """Yield a node and all below it, from left to right."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, Call):
            waiting.extend(reversed(node.arguments))
        elif isinstance(node, Chain):
            waiting.extend(operand for _, operand in reversed(node.rest))
            waiting.append(node.first)
        elif isinstance(node, Prefixed):
            waiting.append(node.operand)


def references_of(root: Node) -> tuple[Reference, ...]:
    """Return the fields that a formula names, each once, in the order of the text."""
    found: dict[str, Reference] = {}
    for node in nodes_of(root):
        if isinstance(node, Reference):
            found.setdefault(node.key, node)
    return tuple(found.values())
