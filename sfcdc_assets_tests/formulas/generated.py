"""Formulas made by chance, with the fields that they name: texts that Salesforce's grammar has."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st


@dataclass(frozen=True)
class Generated:
    """A formula's text, and the references and functions in it, in lower case."""

    text: str
    references: frozenset[str] = frozenset()
    functions: frozenset[str] = frozenset()


_BLANKS = st.sampled_from(["", "", " ", "\n\t", "/* Name.Hidden__c */", " /* it's \" ( */ "])
_TEXTS = st.text(st.sampled_from("aN(\"'/*\\ $.,)"), max_size=8)
_SIGNS = ("+", "-", "*", "/", "^", "&", "=", "==", "<>", "!=", "<", "<=", ">", ">=", "&&", "||")
_FUNCTIONS = (("ISBLANK", 1), ("Abs", 1), ("LEFT", 2), ("and", 2), ("IF", 3), ("TODAY", 0), ("NOW", 0), ("Case", 4))


@st.composite
def formulas(draw: st.DrawFn, names: tuple[str, ...], depth: int = 4) -> Generated:
    """A formula of some of these references, written in any case."""
    blank = draw(_BLANKS)
    kind = draw(st.sampled_from(["name", "text", "number", "word", "call", "chain", "prefix", "group"]))
    if depth == 0 and kind in {"call", "chain", "prefix", "group"}:
        kind = "name"
    match kind:
        case "name":
            name = draw(st.sampled_from(names))
            written = draw(st.sampled_from([name, name.lower(), name.upper()]))
            return Generated(f"{blank}{written}{draw(_BLANKS)}", frozenset({name.lower()}))
        case "text":
            quote = draw(st.sampled_from("\"'"))
            inside = draw(_TEXTS).replace("\\", "\\\\").replace(quote, f"\\{quote}")
            return Generated(f"{blank}{quote}{inside}{quote}")
        case "number":
            return Generated(blank + draw(st.sampled_from(["0", "1", "12.50", "100"])))
        case "word":
            return Generated(f"{blank} {draw(st.sampled_from(['TRUE', 'false', 'Null']))} ")
        case "call":
            function, count = draw(st.sampled_from(_FUNCTIONS))
            parts = [draw(formulas(names, depth - 1)) for _ in range(count)]
            text = f"{blank}{function}{draw(_BLANKS)}({','.join(part.text for part in parts)})"
            return _of(text, *parts, Generated("", functions=frozenset({function.lower()})))
        case "chain":
            left, right = draw(formulas(names, depth - 1)), draw(formulas(names, depth - 1))
            return _of(f"{blank}{left.text} {draw(st.sampled_from(_SIGNS))} {right.text}", left, right)
        case "prefix":
            part = draw(formulas(names, depth - 1))
            return _of(f"{blank} {draw(st.sampled_from(['-', '+', '!', 'NOT ']))}({part.text})", part)
        case _:
            part = draw(formulas(names, depth - 1))
            return _of(f"{blank}({part.text})", part)


def _of(text: str, *parts: Generated) -> Generated:
    references = frozenset().union(*(part.references for part in parts))
    return Generated(text, references, frozenset().union(*(part.functions for part in parts)))
