"""Faults by rule: small changes of the numerical code, drawn over all rooms. Run, it writes the table.

The rules are a few lines each over Python's own syntax tree. Those of mutmut and cosmic-ray know no axes,
means or slices, and keep what they made where people do not read it.
"""

import ast
import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import yaml

from .planting import DRAWN, ROOT, room_of

N, SEED = 100, 0
EQUIVALENT = Path(__file__).with_name("equivalent.yaml")
"""Drawn, and found by hand to change no number: the name, and why. Others are drawn in their place."""

OPERATORS = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.And: ("and", "or"), ast.Or: ("or", "and"),
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "%"), ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"),
    ast.Not: ("not", ""), ast.Invert: ("~", ""), ast.USub: ("-", ""),
}  # fmt: skip
METHODS = {
    "mean": "sum", "sum": "mean", "max": "min", "min": "max", "argmax": "argmin", "argmin": "argmax",
    "any": "all", "all": "any", "nanmean": "nansum", "median": "mean", "std": "var",
    "triu": "tril", "tril": "triu", "cumsum": "cumprod", "log": "log1p", "exp": "expm1",
}  # fmt: skip
AXES = {"dim", "axis"}
WITH_AXIS = {*METHODS, "softmax", "logsumexp", "sort", "argsort", "squeeze", "unsqueeze", "flip", "norm"}
"""Methods whose last argument may be an axis."""

SHOWN = {"device", "strict", "caption", "title", "label", "desc", "disable", "n_jobs", "weights_only"}
"""Arguments without a say in numbers."""


class Change(NamedTuple):
    """`text[start:stop]` becomes `new`, in the function `where`; of what kind that is."""

    kind: str
    where: str
    start: int
    stop: int
    new: str


def numerical() -> list[Path]:
    """The files that compute: without what only draws or reads a command line."""
    files = [*ROOT.glob("attnlib/**/*.py"), *ROOT.glob("book/chapters/**/*.py")]
    computes = re.compile(r"^\s*(import|from) (numpy|torch|pandas|scipy)\b", re.MULTILINE)
    return [
        path
        for path in sorted(files)
        if path.name not in ("figures.py", "building.py")
        and not {"plots", "commands"} & set(path.parts)
        and computes.search(path.read_text())
    ]


def changes(text: str) -> Iterator[Change]:
    """Every change of the rules to a file."""
    lines = text.splitlines(keepends=True)
    starts = list(accumulate(map(len, lines), initial=0))

    def place(line: int, column: int) -> int:
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    def begins(node: ast.expr | ast.keyword) -> int:
        return place(node.lineno, node.col_offset)

    def ends(node: ast.expr | ast.keyword) -> int:
        return place(node.end_lineno, node.end_col_offset)

    def between(kind: str, where: str, operator: object, start: int, stop: int) -> Iterator[Change]:
        if type(operator) in OPERATORS:
            old, new = OPERATORS[type(operator)]
            if (at := text.find(old, start, stop)) >= 0:
                yield Change(kind, where, at, at + len(old), new)

    def of(node: ast.AST, where: str) -> Iterator[Change]:
        match node:
            case ast.Compare():
                operands = [node.left, *node.comparators]
                for left, operator, right in zip(operands, node.ops, operands[1:], strict=False):
                    yield from between("comparison", where, operator, ends(left), begins(right))
            case ast.BinOp() if not any(_is_text(each) for each in (node.left, node.right)):
                yield from between("arithmetic", where, node.op, ends(node.left), begins(node.right))
            case ast.BoolOp():
                for left, right in zip(node.values, node.values[1:], strict=False):
                    yield from between("logic", where, node.op, ends(left), begins(right))
            case ast.UnaryOp():
                yield from between("sign", where, node.op, begins(node), begins(node.operand))
            case ast.Slice():
                for bound in (node.lower, node.upper):
                    if bound is not None:
                        yield Change("bound", where, ends(bound), ends(bound), " + 1")
            case ast.Call(func=ast.Name("range" | "arange")) if node.args:
                yield Change("bound", where, ends(node.args[-1]), ends(node.args[-1]), " + 1")
            case ast.Constant(value=bool()):
                yield Change("constant", where, begins(node), ends(node), str(not node.value))
            case ast.Constant(value=int() | float()):
                new = node.value + 1 if isinstance(node.value, int) else node.value * 2
                yield Change("constant", where, begins(node), ends(node), repr(new))
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            if name in METHODS:
                stop = ends(node.func)
                yield Change("reduction", where, stop - len(name), stop, METHODS[name])
            axes = [each.value for each in node.keywords if each.arg in AXES]
            axes += node.args[-1:] if name in WITH_AXIS else []
            for axis in axes:
                if isinstance(value := _constant(axis), int):
                    new = {-1: -2, -2: -1, 0: 1}.get(value, value - 1)
                    yield Change("axis", where, begins(axis), ends(axis), repr(new))
            before = [*node.args, *node.keywords]
            for last, each in zip([None, *before], before, strict=False):
                if isinstance(each, ast.keyword) and each.arg and each.arg not in AXES | SHOWN:
                    start = begins(each) if last is None else text.rfind(",", 0, begins(each))
                    yield Change("argument", where, start, ends(each), "")

    def within(node: ast.AST, where: str) -> Iterator[Change]:
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list", "type_params", "bases"):
                continue
            for each in value if isinstance(value, list) else [value]:
                if not isinstance(each, ast.AST) or isinstance(each, ast.Raise | ast.Assert | ast.JoinedStr):
                    continue
                declared = isinstance(node, ast.ClassDef) and not isinstance(each, ast.FunctionDef)
                if declared or (isinstance(each, ast.keyword) and each.arg in SHOWN):
                    continue
                named = isinstance(each, ast.FunctionDef | ast.ClassDef)
                inside = f"{where}.{each.name}".lstrip(".") if named else where
                yield from of(each, inside)
                yield from within(each, inside)

    yield from within(ast.parse(text), "")


def draw() -> list[dict[str, str]]:
    """`N` faults over all rooms in proportion to their lines, the kinds in turn.

    Which of a room and kind is by the least hash of what it says, so that an edit moves no other fault.
    """
    found: dict[str, dict[str, list[Change]]] = defaultdict(lambda: defaultdict(list))
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in numerical()}
    known = yaml.safe_load(EQUIVALENT.read_text()) if EQUIVALENT.exists() else {}
    for file, text in texts.items():
        found[room_of(file)][file] = list(changes(text))
    lines = {room: sum(texts[file].count("\n") for file in files) for room, files in found.items()}
    drawn: list[dict[str, str]] = []
    for room, share in _apportioned(lines).items():
        turns: dict[str, int] = defaultdict(int)
        faults = []
        for file, each in found[room].items():
            faults += [(change.kind, _fault(file, texts[file], change)) for change in each]
        faults = sorted(faults, key=lambda each: hashlib.sha256(f"{SEED} {each[1]}".encode()).hexdigest())
        in_turn = []
        for kind, fault in faults:
            turns[kind] += 1
            in_turn.append((turns[kind], fault))
        chosen: dict[str, dict[str, str]] = {}
        for _, fault in sorted(in_turn, key=lambda each: each[0]):
            if len(chosen) < share and fault["name"] not in known and _is_other(fault, texts[fault["file"]]):
                chosen[fault["name"]] = fault
        drawn += chosen.values()
    return drawn


def _apportioned(lines: dict[str, int]) -> dict[str, int]:
    """`N` over the rooms: the whole parts, and one more for the largest remainders."""
    exact = {room: N * each / sum(lines.values()) for room, each in lines.items()}
    shares = {room: int(share) for room, share in exact.items()}
    for room in sorted(exact, key=lambda each: shares[each] - exact[each])[: N - sum(shares.values())]:
        shares[room] += 1
    return shares


def _fault(file: str, text: str, change: Change) -> dict[str, str]:
    """The lines of a change, and as many before as make them stand once in the file."""
    start, stop = _lines(text, change.start, change.stop)
    said = " becomes ".join(" ".join(each.split()) for each in _around(text, change, start, stop))
    while text.count(text[start:stop]) > 1:
        start = _lines(text, start - 1, start)[0]
    old, new = _around(text, change, start, stop)
    return {"name": f"{file}, {change.where}: {said}", "file": file, "old": old, "new": new}


def _is_other(fault: dict[str, str], text: str) -> bool:
    """It can be read as Python, and says something else."""
    try:
        return ast.dump(ast.parse(text.replace(fault["old"], fault["new"]))) != ast.dump(ast.parse(text))
    except SyntaxError:
        return False


def _around(text: str, change: Change, start: int, stop: int) -> tuple[str, str]:
    return text[start:stop], text[start : change.start] + change.new + text[change.stop : stop]


def _constant(node: ast.expr) -> object:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr | ast.List | ast.Tuple) or isinstance(_constant(node), str)


def _lines(text: str, start: int, stop: int) -> tuple[int, int]:
    end = text.find("\n", stop)
    return text.rfind("\n", 0, start) + 1, end if end >= 0 else len(text)


if __name__ == "__main__":
    DRAWN.write_text(yaml.safe_dump(draw(), sort_keys=False, allow_unicode=True, width=120))
