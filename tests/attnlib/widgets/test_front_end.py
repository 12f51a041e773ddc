"""Explorers' scripts say what they need, and get it once, in an order that works."""

import re
from pathlib import Path

import pytest

from attnlib.widgets.front_end import DEFINED, EXPORT, FRONT, IMPORT, front_end

EXPLORERS = sorted(path.name for path in FRONT.glob("*_explorer.js"))


def written(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / name.replace("_css", ".css")).with_suffix(".css" if "_css" in name else ".js").write_text(
            text
        )
    return folder


def test_what_is_imported_comes_first_and_once(tmp_path: Path) -> None:
    written(
        tmp_path,
        top='import { one } from "./one.js";\nimport {\n  two, K\n} from "./two.js";\nconst top = 3;\n',
        two='import { one } from "./one.js";\nimport "./own.css";\nexport const two = 2;\nexport class K{}\n',
        one="export const one = 1;\nconst hidden = 2;\n",
        own_css=".own {}\n",
    )
    script, style = front_end("top.js", tmp_path)
    lines = ["const one = 1;", "const hidden = 2;", "const two = 2;", "class K{}", "const top = 3;"]
    assert [line for line in script.splitlines() if line] == lines
    assert style == ".own {}\n"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a": 'import { b } from "./b.js";\n'}, "a.js imports b.js, which is not in "),
        (
            {"a": 'import { b } from "./b.js";\n', "b": 'import { a } from "./a.js";\nexport const b = 1;\n'},
            "^a.js imports b.js imports a.js",
        ),
        (
            {"a": 'import { b, c } from "./b.js";\n', "b": "export const b = 1;\nconst c = 2;\n"},
            "a.js imports c, which b.js does not export",
        ),
        ({"a": 'import b from "./b.js";\n'}, "a.js holds 'import b from .*; write import { name }"),
        (
            {"a": 'import { b } from "./b.js";\nconst c = 1;\n', "b": "export const b = 1;\nconst c = 2;\n"},
            "b.js, a.js defines c: rename",
        ),
    ],
)
def test_what_cannot_be_joined_is_refused_by_name(
    tmp_path: Path, files: dict[str, str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        front_end("a.js", written(tmp_path, **files))


@pytest.mark.parametrize("name", sorted(path.name for path in FRONT.glob("*.js")))
def test_a_script_imports_what_it_uses_and_nothing_else(name: str) -> None:
    """Joined, a script would find what another one imports; so would a reader not."""
    text = (FRONT / name).read_text()
    imported = {each for names, _ in IMPORT.findall(text) for each in re.findall(r"\w+", names)}
    code = re.sub(r"//.*", "", EXPORT.sub("", IMPORT.sub("", text)))
    assert {each for each in imported if not re.search(rf"(?<!\w){each}\b", code)} == set()
    exported = {each for path in FRONT.glob("*.js") for each in EXPORT.findall(path.read_text())}
    called = set(re.findall(r"(?:\.\.\.|new |(?<![.\w]))(\w+)\(", code))
    own = {
        *DEFINED.findall(code),
        *re.findall(r"(\w+) =", code),
        *re.findall(r"^  (\w+)\(", code, re.MULTILINE),
    }
    assert (called & exported) - imported - own == set()


@pytest.mark.parametrize("explorer", EXPLORERS)
def test_an_explorer_is_one_module_without_imports(explorer: str) -> None:
    script, style = front_end(explorer)
    assert script.endswith("export default { render };\n")
    assert re.findall(r"^(?:import|export)\b.*", script, re.MULTILINE) == ["export default { render };"]
    assert (script, style) == front_end(explorer)


@pytest.mark.parametrize("name", sorted(path.name for path in FRONT.glob("*_explorer.css")))
def test_every_rule_of_an_explorer_names_a_class_of_its_own(name: str) -> None:
    """Else it would hold for the others on the page."""
    rules = {path.name: _selectors(path.read_text()) for path in FRONT.glob("*_explorer.css")}
    others = {each for other in rules if other != name for rule in rules[other] for each in _prefixes(rule)}
    assert [rule for rule in rules[name] if not _prefixes(rule) - others] == []


def _selectors(style: str) -> list[str]:
    """One by one, without comments and what stands in brackets."""
    style = re.sub(r"/\*.*?\*/|@container[^{]*\{|\([^()]*\)", "", style, flags=re.DOTALL)
    return [each.strip() for rule in re.findall(r"([^{}]+)\{", style) for each in rule.split(",")]


def _prefixes(selector: str) -> set[str]:
    """Of its classes: attng of .attng-word."""
    return set(re.findall(r"\.(attn[a-z])\b", selector))
