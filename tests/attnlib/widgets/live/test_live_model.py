"""A language model in the page: what it writes and what its words drew on, against torch."""

import random
from contextlib import ExitStack

import gguf
import pytest
import torch
from gguf import GGMLQuantizationType as Kind

from attnlib.attribution.lrp import attn_lrp
from attnlib.attribution.perturbation import blank_out
from attnlib.generators.prompts import encode
from attnlib.models.attention.changes import heads_ablated, reinforced
from attnlib.pieces import pieces
from attnlib.rollout import generate_with_rollout
from attnlib.widgets.front_end import front_end
from attnlib.widgets.live import LIVE, checking, packing
from tests.attnlib.test_pieces import SCRIPTS
from tests.browser import open_browser
from tests.explorers import HOSTILE
from tests.live_page import FILE, live_page, rows_of, small_llama, small_tokenizer

pytestmark = pytest.mark.book
TEXT = "The ferry to the island leaves at nine, and comes back at six.\nQuestion: when does it"
LAYERS, HEADS, NEW = 3, 4, 10


@pytest.fixture(scope="module")
def browser():
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def small():
    return small_llama(), small_tokenizer()


@pytest.fixture(scope="module")
def page(browser, small, tmp_path_factory):
    """A page in which the small model is open."""
    folder = tmp_path_factory.mktemp("live")
    packing.pack(*small, folder / "small.gguf")
    checking.check(folder / "small.gguf")
    with live_page(browser, folder / "small.gguf", folder) as (page, problems):
        page.evaluate(f"opened({FILE})")
        yield page
        assert problems == []


@pytest.fixture(scope="module")
def ids(small):
    return encode(TEXT, small[1], True)


def written(page, ids, **how):
    return page.evaluate("([ids, how]) => written(ids, how)", [ids.flatten().tolist(), how])


def close(found, expected, within=1e-5):
    torch.testing.assert_close(found, expected, atol=within, rtol=0, equal_nan=True)


def relevance(page, ids, at):
    return torch.tensor(page.evaluate("async (given) => [...await live.relevance(...given)]", [ids, at]))


def blanked(page, ids, *given):
    return torch.tensor(
        [float(nats) for nats in page.evaluate("(given) => blanked(...given)", [ids, *given])]
    )


def test_text_rollout_and_attention_are_those_of_python(page, small, ids):
    model, tokenizer = small
    result = generate_with_rollout(model, ids, NEW, do_sample=False)
    words, prompt = written(page, ids, newTokens=NEW), ids.shape[1]
    assert [word["id"] for word in words] == result.tokens.tolist()
    every = torch.cat([ids[0], result.tokens])
    assert [word["text"] for word in words] == pieces(every.tolist(), tokenizer)[prompt:]
    apart = generate_with_rollout(model, ids, continuation=result.tokens, sink=[0])
    model.set_attn_implementation("eager")
    with torch.no_grad():
        output = model(every[None], output_attentions=True)
    model.set_attn_implementation("sdpa")
    likely = output.logits[0].log_softmax(-1)
    for g, word in enumerate(words):
        n = prompt + g
        assert word["n"] == n
        close(rows_of(word, "rollout", LAYERS)[:, :prompt], result.matrix[g].T)
        close(rows_of(word, "sinkFree", LAYERS)[:, :prompt], apart.matrix[g].T)
        attention = torch.stack([layer[0, :, n - 1, :n] for layer in output.attentions])
        close(rows_of(word, "attention", LAYERS, HEADS), attention)
        assert word["logp"] == pytest.approx(float(likely[n - 1, word["id"]]), abs=1e-4)
        assert rows_of(word, "rollout", LAYERS).sum(-1).tolist() == pytest.approx([1] * LAYERS, abs=1e-5)


def test_a_word_forced_is_followed_as_a_written_one(page, small, ids):
    forced = torch.tensor([17, 300, 5])
    result = generate_with_rollout(small[0], ids, continuation=forced)
    words = written(page, ids, forced=forced.tolist())
    assert [word["id"] for word in words] == forced.tolist()
    for word, matrix in zip(words, result.matrix, strict=True):
        rows = rows_of(word, "rollout", LAYERS)[:, : ids.shape[1]]
        close(rows, matrix.T)


@pytest.mark.parametrize("place", [0, 3])
def test_blank_out_is_that_of_python(page, small, ids, place):
    every = torch.cat([ids[0], torch.tensor([17, 300, 5, 40])])
    at = ids.shape[1] + place
    expected = blank_out(small[0], every[None, :at], target=every[at : at + 1])[0]
    close(blanked(page, every.tolist(), at), expected, 1e-4)


def test_blank_out_of_more_rows_than_are_asked_for_at_once(page, small):
    ids = torch.arange(3, 150)
    expected = blank_out(small[0], ids[None, :146], target=ids[146:])[0]
    close(blanked(page, ids.tolist(), 146), expected, 1e-4)
    listen = (
        "(ids) => { const shares = []; return live.blankOut(ids, 146, { onProgress: (s) => shares.push(s) })"
    )
    shares = page.evaluate(
        f"{listen}.then(() => shares); }}", [9, *ids[1:].tolist()]
    )  # nothing is known of it
    assert shares == sorted(shares) and shares[-1] == 1 and len(shares) > 20


def test_relevance_is_that_of_python(page, small, ids):
    every = torch.cat([ids[0], torch.arange(40, 200)])  # more tokens than are read at once
    for at in (
        ids.shape[1],
        50,
        51,
        30,
        180,
    ):  # anew, what is kept, further on, back, and further than is kept
        expected = attn_lrp(small[0], every[None, :at], target=every[at : at + 1])[0]
        close(relevance(page, every.tolist(), at), expected, 1e-4 * float(expected.abs().max()))
    asked = "async (ids) => { await live.blankOut(ids, 20); return [...await live.relevance(ids, 21)]; }"
    expected = attn_lrp(small[0], every[None, :21], target=every[21:22])[0]
    found = torch.tensor(page.evaluate(asked, every.tolist()))
    close(found, expected, 1e-4 * float(expected.abs().max()))


def test_words_further_on_and_back_and_while_another_text_is_written(page, small, ids):
    every = torch.cat([ids[0], torch.arange(40, 80)]).tolist()
    for at in (50, 51, 58, 50, 30, 85):  # kept, a little further, back, within, and further than is kept
        expected = blank_out(small[0], torch.tensor([every[:at]]), target=torch.tensor([every[at]]))[0]
        close(blanked(page, every, at), expected, 1e-4)
    both = "async (ids) => { const found = blanked(ids, 80); await written(ids.slice(0, 9)); return found; }"
    expected = blank_out(small[0], torch.tensor([every[:80]]), target=torch.tensor([every[80]]))[0]
    close(torch.tensor([float(nats) for nats in page.evaluate(both, every)]), expected, 1e-4)
    other = [3, *every[1:]]
    expected = blank_out(small[0], torch.tensor([other[:50]]), target=torch.tensor([other[50]]))[0]
    close(blanked(page, other, 50), expected, 1e-4)


CHANGED = [(0, 1), (2, 3)]


@pytest.mark.parametrize("kind", ["off", "even", "push"])
def test_switched_heads_are_those_of_python(page, small, ids, kind):
    model, forced, prompt, place = small[0], torch.tensor([17, 300]), ids.shape[1], 5
    every = torch.cat([ids[0], forced])
    with ExitStack() as stack:
        if kind == "push":
            onto = torch.zeros(1, len(every), len(every), dtype=torch.bool)
            onto[:, place:, place] = True
            stack.enter_context(reinforced(model, CHANGED, onto, 1.0))
        else:
            stack.enter_context(heads_ablated(model, CHANGED, "zero" if kind == "off" else "uniform"))
        with torch.no_grad():
            likely = model(every[None]).logits[0].log_softmax(-1)
        rolled = generate_with_rollout(model, ids, continuation=forced)
    changes = [{"layer": layer, "head": head, "kind": kind, "token": place} for layer, head in CHANGED]
    own, words = (
        written(page, ids, forced=forced.tolist()),
        written(page, ids, forced=forced.tolist(), changes=changes),
    )
    for g, word in enumerate(words):
        assert word["logp"] == pytest.approx(float(likely[prompt + g - 1, forced[g]]), abs=1e-4)
        assert abs(word["logp"] - own[g]["logp"]) > 1e-3
        row = rows_of(word, "attention", LAYERS, HEADS)[CHANGED[1]]
        expected = {"off": torch.zeros(word["n"]), "even": torch.full((word["n"],), 1 / word["n"])}
        expected["push"] = torch.eye(word["n"])[place]
        torch.testing.assert_close(row, expected[kind])
        rows = rows_of(word, "rollout", LAYERS)[:, :prompt]
        close(rows, rolled.matrix[g].T)


def test_a_blanked_token_is_left_out_and_the_others_keep_their_places(page, small, ids):
    forced, prompt, gone = torch.tensor([17, 300]), ids.shape[1], [4, 9]
    words = written(page, ids, forced=forced.tolist(), blanked=gone)
    kept = torch.tensor([i for i in range(prompt + 2) if i not in gone])
    every = torch.cat([ids[0], forced])[kept][None]
    with torch.no_grad():
        mask = torch.ones_like(every)  # without it a gap is the border of two packed prompts
        likely = small[0](every, position_ids=kept[None], attention_mask=mask).logits[0].log_softmax(-1)
    for g, word in enumerate(words):
        assert word["logp"] == pytest.approx(float(likely[prompt - len(gone) + g - 1, forced[g]]), abs=1e-4)
        assert word["n"] == prompt + g
        assert rows_of(word, "rollout", LAYERS)[:, gone].abs().max() == 0
        assert rows_of(word, "attention", LAYERS, HEADS).sum(-1).flatten().tolist() == pytest.approx(
            [1] * 12, abs=1e-5
        )


def test_a_seed_gives_the_same_text_again_and_another_seed_another(page, ids):
    texts = [[word["id"] for word in written(page, ids, temperature=1, seed=seed)] for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_words_are_drawn_with_the_temperature_s_probabilities(page):
    logits, temperature, draws = torch.tensor([1.0, 0.0, 2.0, -1.0]), 0.7, 20_000
    drawing = """const next = random(5), counts = [0, 0, 0, 0];
    for (let i = 0; i < draws; i++) counts[chosen(logits, temperature, next)]++;
    return counts;"""
    script = f"([logits, temperature, draws]) => {{ {front_end('choosing.js', LIVE)[0]} {drawing} }}"
    counts = page.evaluate(script, [logits.tolist(), temperature, draws])
    share = (logits / temperature).softmax(0)
    error = (share * (1 - share) / draws).sqrt()
    assert ((torch.tensor(counts) / draws - share).abs() < 4 * error).all()


def texts():
    some, draw = "aé \n\t'sS1½²٣🦙\u0085\u00a0\u3000\ufeff漢'll,.--<|im_end|>\u0301ﬁ", random.Random(0)
    mixed = ["".join(draw.choices(some, k=draw.randint(1, 30))) for _ in range(200)]
    return [
        *mixed,
        *HOSTILE,
        "Zoë's 3,142 naïve 🦙s — isn't it?\n\n  x\t12",
        " <|im_start|>a<|im_end|> ",
        "a" * 300,
        *SCRIPTS.values(),
    ]


@pytest.mark.parametrize("digits", [True, False], ids=["SmolLM's splitting", "GPT-2's"])
def test_tokens_are_those_of_python(page, browser, small, digits, tmp_path):
    tokenizer = small_tokenizer(digits)
    if not digits:
        packing.pack(small[0], tokenizer, tmp_path / "other.gguf")
    with ExitStack() as stack:
        if not digits:
            page, _ = stack.enter_context(live_page(browser, tmp_path / "other.gguf", tmp_path))
            page.evaluate(f"opened({FILE})")
        read = "(text) => live.encode(text).then((found) => ({ ...found, ids: [...found.ids] }))"
        asked = f"(texts) => Promise.all(texts.map({read}))"
        for text, found in zip(texts(), page.evaluate(asked, texts()), strict=True):
            expected = tokenizer(text)["input_ids"]
            special = [i in tokenizer.all_special_ids for i in expected]
            assert found == {"ids": expected, "texts": pieces(expected, tokenizer), "special": special}, text
        chat = page.evaluate("async (t) => [...(await live.encode(t, { chat: true })).ids]", TEXT)
        assert chat == encode(TEXT, tokenizer, True)[0].tolist()


def test_what_tokens_write_in_any_order_is_what_python_says(page, small):
    draw = random.Random(0)
    for _ in range(60):
        ids = draw.choices(
            range(400), k=draw.randint(1, 12)
        )  # bytes that are no characters, and tokens of none
        expected = pieces(ids, small[1])
        assert page.evaluate("(ids) => live.texts(ids)", ids) == expected, ids


@pytest.mark.parametrize(
    "kind", [Kind.F32, Kind.BF16, Kind.Q4_0, Kind.Q4_1, Kind.Q8_0], ids=lambda kind: kind.name
)
@pytest.mark.parametrize("engine", [0, 1], ids=["fused", "plain"])
def test_every_type_of_weights_and_both_engines(browser, kind, engine, tmp_path, monkeypatch):
    model, tokenizer = small_llama(tie_word_embeddings=False, vocab_size=402), small_tokenizer()

    def stored(weight):
        whole = kind if weight.ndim > 1 else Kind.F32
        return gguf.quants.quantize(weight.numpy(), whole), whole

    monkeypatch.setattr(packing, "_narrowest", stored)
    packing.pack(model, tokenizer, tmp_path / "small.gguf")
    checking.check(tmp_path / "small.gguf")
    model.load_state_dict(
        {
            name: torch.tensor(gguf.quants.dequantize(*stored(weight)))
            for name, weight in model.state_dict().items()
        }
    )
    ids = encode(TEXT, tokenizer, False)
    result = generate_with_rollout(model, ids, NEW, do_sample=False)
    with live_page(browser, tmp_path / "small.gguf", tmp_path) as (page, problems):
        page.evaluate(f"opened({FILE}, {{ ...PARTS, engines: [PARTS.engines[{engine}]] }})")
        words = written(page, ids, newTokens=NEW)
        assert problems == []
    assert [word["id"] for word in words] == result.tokens.tolist()
    found = torch.stack([rows_of(word, "rollout", LAYERS)[:, : ids.shape[1]] for word in words])
    close(found, result.matrix.transpose(1, 2))


def test_what_is_stopped_stops_and_the_model_can_be_asked_again(page, ids):
    stops = """async (ids) => {
      const heard = [], long = Array.from({ length: 200 }, (_, i) => i);
      const aborted = (work) => {
        const stop = new AbortController();
        return refused(work(stop.signal, () => stop.abort(new Error("enough"))));
      };
      const writing = async (signal, enough) => {
        for await (const word of live.write(ids, { signal })) enough();
      };
      heard.push(await aborted(writing));
      heard.push(await aborted((signal, enough) => live.blankOut(long, 190, { signal, onProgress: enough })));
      const first = live.write(ids), second = live.write(ids);
      await first.next();
      await second.next();
      heard.push(await refused(first.next()));
      await second.return();
      for await (const word of live.write(ids)) break;
      return [...heard, (await written(ids, { newTokens: 3 })).length];
    }"""
    assert page.evaluate(stops, ids[0].tolist()) == ["enough", "enough", "another text was begun", 3]


REFUSALS = [
    ("live.blankOut([5, 6, 7], 1)", "from place 2 to the last, 2; got 1"),
    ("live.write([], {}).next()", "the prompt is empty"),
    ("live.write([5, 400], {}).next()", "ids go from 0 to 399"),
    ("live.write(Array(250).fill(5), { newTokens: 7 }).next()", "has 250 tokens, and 7 more are asked for"),
    ("live.write(Array(8192).fill(5), {}).next()", "at most 256 in all"),
    ("live.write([5, 6], { blanked: [1] }).next()", "last token cannot be blanked"),
    ("live.write([5, 6], { changes: [{ layer: 3, head: 0, kind: 'off' }] }).next()", "3 layers of 4 heads"),
    (
        "live.write([5, 6], { changes: [{ layer: 0, head: 0, kind: 'out' }] }).next()",
        'can be "off", "even" or',
    ),
    ("live.write([5, 6], { changes: [{ layer: 0, head: 0, kind: 'push', token: 2 }] }).next()", "got 2"),
]


@pytest.mark.parametrize(("asked", "said"), REFUSALS)
def test_what_cannot_be_asked_is_refused_in_a_line(page, asked, said):
    message = page.evaluate(f"refused({asked})")
    assert message and said in message and "\n" not in message


def damaged(data: bytes) -> dict[str, tuple[bytes, str]]:
    """Files that are none, each with what is said of it."""
    return {
        "empty": (b"", "no GGUF file"),
        "a page": (b"<!DOCTYPE html><title>404</title>" + bytes(100), "does not begin with the letters GGUF"),
        "version": (data[:4] + b"\x09" + data[5:], "version 9"),
        "header cut": (data[:3000], "ends before its weights begin"),
        "weights cut": (data[:-100], "cut short"),
        "counts": (data[:8] + b"\xff" * 8 + data[16:], "more than any can"),
        "architecture": (data.replace(b"llama", b"mamba", 1), "architecture mamba"),
        "tokenizer": (data.replace(b"smollm", b"qwen22"), '"qwen22"'),
        "a name": (
            data.replace(b"blk.1.attn_q.weight", b"blk.1.attn_q.wrongs"),
            "knows nothing of: blk.1.attn_q.wrongs",
        ),
        "a size": (
            data.replace(b"llama.block_count\x04\x00\x00\x00\x03", b"llama.block_count\x04\x00\x00\x00\x04"),
            "claims to have 4 layers, and has 29 weights",
        ),
    }


def test_a_damaged_or_foreign_file_gets_one_clear_line(browser, small, tmp_path):
    packing.pack(*small, tmp_path / "small.gguf")
    for name, (data, said) in damaged((tmp_path / "small.gguf").read_bytes()).items():
        (tmp_path / "bad.gguf").write_bytes(data)
        with live_page(browser, tmp_path / "bad.gguf", tmp_path) as (page, problems):
            message = page.evaluate(f"refused(opened({FILE}))")
            assert problems == []
        assert message and said in message and "\n" not in message, name


def test_a_closed_model_says_so(browser, small, tmp_path):
    packing.pack(*small, tmp_path / "small.gguf")
    with live_page(browser, tmp_path / "small.gguf", tmp_path) as (page, _):
        page.evaluate(f"opened({FILE})")
        page.evaluate("live.close()")
        assert page.evaluate("refused(live.encode('a'))") == "the model was closed"
        page.evaluate("window.gone = new AbortController(); gone.abort(new Error('no more'))")
        again = f"LiveModel.open({FILE}, {{ parts: PARTS, signal: gone.signal }})"
        assert page.evaluate(f"refused({again})") == "no more"
        old = f"opened({FILE}, {{ ...PARTS, engines: [btoa('x')] }})"
        assert "no WebAssembly with SIMD" in page.evaluate(f"refused({old})")
