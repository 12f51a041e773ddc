"""Explorers' scripts say what they need, and get it once, in an order that works."""

import re
from pathlib import Path

import pytest

from attnlib.widgets.front_end import EXPORT, FRONT, IMPORT, front_end

DEFINED = re.compile(r"^(?:const|let|(?:async )?function|class) (\w+)", re.MULTILINE)
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


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"b\.js"):
        front_end("a.js", written(tmp_path, a='import { b } from "./b.js";\n'))


@pytest.mark.parametrize("name", sorted(path.name for path in FRONT.glob("*.js")))
def test_a_script_imports_what_it_uses_and_nothing_else(name: str) -> None:
    """Joined, a script would find what another one imports; so would a reader not."""
    text, imported = (FRONT / name).read_text(), set()
    for names, other in IMPORT.findall(text):
        imported |= (own := set(re.findall(r"\w+", names)))
        assert other.startswith("colours.") or own <= set(EXPORT.findall((FRONT / other).read_text()))
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
    defined = DEFINED.findall(script)
    assert len(defined) == len(set(defined)), "two files of the same name for two things, joined"
    assert (script, style) == front_end(explorer)
    assert "May be touched for" not in script, "the header of a file, which is for who edits it"


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
