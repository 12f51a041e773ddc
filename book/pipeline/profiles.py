"""Parameter sets from YAML files: names of the chapter's own parameters, and plain values.

Papermill writes both into a cell as they stand, so a name that is more than a name would be run as code.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import papermill
import yaml

from attnlib.checks import hint
from attnlib.places import content


class ProfileError(ValueError):
    """A file holds no parameters of its chapter: the message says which file, what is wrong, what to do."""


class _Loader(yaml.SafeLoader):
    """A safe loader that refuses repeated names."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        names = [key.value for key, _ in node.value]
        for number, (key, _) in enumerate(node.value):
            if key.value in names[:number]:
                why = f"{key.value!r} stands there twice: leave one of them out"
                raise yaml.constructor.ConstructorError(None, None, why, key.start_mark)
        return super().construct_mapping(node, deep)


def parameters_of(notebook: Path) -> list[str]:
    """The names in a notebook's cell of parameters."""
    return list(papermill.inspect_notebook(str(notebook)))


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file; an empty one if it only has comments."""
    shape = "should be YAML that maps names to values, such as `steps: 100`"
    try:
        found = yaml.load(content(path).decode("utf-8"), _Loader)
    except OSError as error:
        raise ProfileError(f"{path} cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ProfileError(f"{path} {shape}; it is no text in UTF-8") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f" (line {mark.line + 1}: {getattr(error, 'problem', '')})" if mark else ""
        raise ProfileError(f"{path} {shape}; it cannot be read as YAML{line}") from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ProfileError(f"{path} {shape}; it holds {type(found).__name__} {str(found)[:60]!r}")
    return found


def read_profile(path: Path, notebook: Path) -> dict[str, Any]:
    """The parameters in a YAML file; raises `ProfileError` if the notebook does not have one of them."""
    return checked(read_yaml(path), notebook, path)


def checked(given: Mapping[str, Any], notebook: Path, source: Path) -> dict[str, Any]:
    """The given parameters; raises `ProfileError` if the notebook does not have one of them."""
    names = parameters_of(notebook)
    for name in given:
        if name not in names:
            meant = hint(str(name), names) or f"; there are {', '.join(names) or 'none'}"
            raise ProfileError(f"{source}: {notebook.stem} has no parameter {name!r}{meant}")
    return dict(given)
