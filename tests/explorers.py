"""What the tests of all explorers need: texts that could break a page, its state, a press of its button."""

import json
import re
from typing import Any

HOSTILE = ["<script>alert(1)</script>", "</style>", "<!--<script>", "<img src=x onerror=alert(1)>"]


def state_of(page: str) -> dict[str, Any]:
    """The state as the page's script reads it."""
    found = re.search(r"const state = (\{.*\});", page)
    assert found
    return json.loads(found[1])


def is_harmless(page: str) -> bool:
    """Whether a page that shows `HOSTILE`, under the title `</script><b>`, has the tags of its own alone."""
    own = [page.count(tag) for tag in ("</script", "<script", "</style", "<style")]
    return own == [1, 1, 1, 1] and not re.search("<b>|<img|<!--", page)


def press(explorer: Any, text: str) -> None:
    """What the button of a live view does."""
    explorer._handle_custom_msg({"text": text}, [])
