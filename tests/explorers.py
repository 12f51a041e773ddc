"""What the tests of all explorers need: numbers to show, texts that could break a page, what a page holds."""

import json
import re
import zlib
from typing import Any

import numpy as np
import torch

HOSTILE = ["<script>alert(1)</script>", "</style>", "<!--<script>", "<img src=x onerror=alert(1)>"]


def attention(checkpoints: int = 3, layers: int = 2, heads: int = 3, tokens: int = 4) -> torch.Tensor:
    """Weights of heads over training, of their own for every number of tokens."""
    generator = torch.Generator().manual_seed(tokens)
    draw = torch.randn(checkpoints, layers, heads, tokens, tokens, generator=generator)
    return torch.softmax(2 * draw, dim=-1)


def scores(checkpoints: int = 3, tokens: int = 4) -> dict[str, torch.Tensor]:
    """Three scores of tokens over training: one of shares, one of numbers around zero, one of small ones."""
    draw = torch.randn(3, checkpoints, tokens, generator=torch.Generator().manual_seed(tokens))
    return {"alpha": torch.softmax(2 * draw[0], -1), "beta": 3 * draw[1], "Delta": 0.01 * draw[2]}


def raw(explorer: Any, index: int = 0) -> np.ndarray:
    """The bytes of an item, as the front end reads them."""
    start = sum(item["bytes"] for item in explorer.items[:index])
    packed = explorer.weights[start : start + explorer.items[index]["bytes"]]
    return np.frombuffer(zlib.decompress(packed, wbits=-15), np.uint8)


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
