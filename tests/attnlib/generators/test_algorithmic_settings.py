"""The six algorithmic tasks: reproducible, split, in batches, in prompts, with any tokenizer."""

import os
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from torch.utils.data import DataLoader, Dataset
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from attnlib.generators import IGNORE, LongAdditionGenerator, SuccessorGenerator, char_tokenizer
from attnlib.generators.algorithmic import TASKS, task

CHARACTERS, CHAT = char_tokenizer(), char_tokenizer()
CHAT.chat_template = (
    "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"  # as Llama's begins
)
FEW = {"length": (2, 3)}


def same(one, other):
    return all(
        torch.equal(getattr(one, part), getattr(other, part))
        for part in ("input_ids", "target_ids", "reference", "evaluated")
    ) and (one.text, one.prompt, one.answer) == (other.text, other.prompt, other.answer)


# ---- reproducible, split --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TASKS)
def test_a_sample_depends_on_seed_and_index_only(name):
    g = task(name, CHARACTERS, seed=5, **FEW)
    later = g.samples(10, start=250)  # over the border of two chunks
    again = task(name, CHARACTERS, seed=5, **FEW)
    assert all(map(same, later, islice(again.generate_samples(), 250, 260)))
    assert all(map(same, again.samples(4, start=254), later[4:8]))
    assert [s.text for s in task(name, CHARACTERS, seed=6, **FEW).samples(50)] != [
        s.text for s in g.samples(50)
    ]


def texts_from_sets():
    """Texts of all tasks; characters come from sets, whose order differs from process to process."""
    sets = {
        "string_reversal": {"charset": set("qwertzuiop")},
        "value_assignment": {"charset_from": set("abcdefghi"), "charset_to": set("0123456789")},
    }
    short = {"length": (2, 4), "tokenizer": CHARACTERS, "seed": 1}
    table = {"value_assignment": {"encoding_length": (2, 9)}}
    return [
        [
            sample.text
            for sample in task(name, **short, **sets.get(name, {}), **table.get(name, {})).samples(20)
        ]
        for name in TASKS
    ]


def test_samples_are_the_same_in_another_process():
    program = "from test_algorithmic_settings import texts_from_sets; print(texts_from_sets())"
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parent)}
    run = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == str(texts_from_sets())


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("most", [2, 3])
def test_splits_share_no_sum_in_another_order(padded, most):
    how = {"length": (1, 4 - most // 3 * 2), "num_of_nums": (2, most), "pad_with_zeros": padded}

    def sums(split, n):
        drawn = task("long_addition", CHARACTERS, split=split, **how).samples(n)
        return {tuple(sorted(int(one[::-1]) for one in sample.prompt[:-1].split("+"))) for sample in drawn}

    found = {split: sums(split, 8_000 if split == "train" else 500) for split in ("train", "valid", "test")}
    assert not found["test"] & found["train"]
    assert not found["valid"] & (found["train"] | found["test"])


@pytest.mark.parametrize("name", TASKS)
def test_splits_share_no_text(name):
    texts = {
        split: {sample.text for sample in task(name, CHARACTERS, seed=seed, split=split, **FEW).samples(500)}
        for seed, split in enumerate(("train", "valid", "test"))
    }
    assert all(len(found) > 10 for found in texts.values())
    assert (
        not texts["train"] & texts["test"] | texts["train"] & texts["valid"] | texts["valid"] & texts["test"]
    )
    drawn = {sample.text for sample in task(name, CHARACTERS, seed=3, **FEW).samples(500)}
    assert len(drawn & texts["train"] | drawn - texts["test"] - texts["valid"]) > 0.6 * len(drawn)


def test_a_texts_split_does_not_depend_on_settings_around_it():
    small = task("string_reversal", CHARACTERS, charset="abc", length=(3, 5), split="test")
    large = task("string_reversal", CHARACTERS, charset="zyxcba", length=(1, 5), split="train")
    assert not {s.text for s in small.samples(500)} & {s.text for s in large.samples(2000)}


# ---- batches ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("name", TASKS)
def test_batches_say_what_their_samples_say_alone(name, published):
    g = task(name, CHAT, apply_chat_template=True, use_few_shot=True, as_published=published, **FEW)
    samples = g.samples(100, start=200)  # two chunks
    batch = g.batches(100, reference=True)(2)
    for made in (batch, g.batch(samples)):
        for row, sample in enumerate(samples):
            n = len(sample.input_ids)
            assert made.attention_mask[row].tolist() == [True] * n + [False] * (
                len(made.attention_mask[0]) - n
            )
            assert torch.equal(made.input_ids[row, :n], sample.input_ids)
            assert torch.equal(made.target_ids[row, :n], sample.target_ids)
            assert (made.input_ids[row, n:] == CHAT.pad_token_id).all()
            assert (made.target_ids[row, n:] == IGNORE).all()
            for mask in ("reference", "evaluated"):
                whole = getattr(made, mask)[row]
                assert torch.equal(whole[:n, :n], getattr(sample, mask))
                assert whole.sum() == getattr(sample, mask).sum()


def test_training_batches_have_no_reference_and_depend_on_the_step_alone():
    batch_at = task("long_addition", CHARACTERS).batches(30)
    third = batch_at(3)
    assert third.reference is None and third.evaluated is None
    batch_at(9), batch_at(0)
    assert torch.equal(batch_at(3).input_ids, third.input_ids)
    with pytest.raises(ValueError, match="batch_size must be at least 1; got 0"):
        task("long_addition", CHARACTERS).batches(0)


def test_all_samples_once_in_their_order():
    g = task("successor", CHARACTERS)
    samples = g.samples(70)
    batches = g.in_batches(iter(samples), size=32)
    assert [len(batch) for batch in batches] == [32, 32, 6]
    assert torch.equal(batches[2].input_ids[5, : len(samples[69].input_ids)], samples[69].input_ids)
    with pytest.raises(ValueError, match="a batch needs at least one sample"):
        g.batch([])


def test_without_labels_there_is_no_reference():
    g = task("long_addition", CHARACTERS, generate_attn_labels=False)
    samples = g.samples(3)
    assert all(sample.reference is None and sample.evaluated is None for sample in samples)
    assert g.batch(samples).reference is None and g.batches(3, reference=True)(0).reference is None
    assert set(g.generate_dataset(samples)[0]) == {"texts", "input_ids", "target_ids", "attention_mask"}


def test_a_data_set_has_one_value_where_nothing_is_predicted():
    g = task("successor", CHARACTERS)
    samples = [sample for n in (1, 20) for sample in g.samples(n)]
    plain, other = (g.generate_dataset(samples, ignore_index=value).batch.target_ids for value in (None, -1))
    assert (plain == IGNORE).any() and not (other == IGNORE).any()
    assert torch.equal(other, plain.masked_fill(plain == IGNORE, -1))


def readme_snippet(data_generator):
    samples = islice(data_generator.generate_samples(), 100)
    return data_generator.generate_dataset(samples)


def check_dataset(dataset):
    assert isinstance(dataset, Dataset) and len(dataset) == 100
    for batch in DataLoader(dataset, batch_size=16):
        rows, longest = batch["input_ids"].shape
        assert rows == len(batch["texts"]) and batch["target_ids"].shape == (rows, longest)
        assert batch["attn_labels"].shape == batch["reference"].shape == (rows, longest, longest)
        assert torch.equal(batch["attn_labels"] == 1, batch["reference"] & batch["evaluated"])
        assert torch.equal(batch["attn_labels"] == IGNORE, ~batch["evaluated"])


def test_the_originals_readme_snippet_works():
    settings = {"seed": 0, "length": (1, 4), "num_of_nums": (2, 2)}
    check_dataset(readme_snippet(LongAdditionGenerator(tokenizer=CHARACTERS, **settings)))


# ---- tokenizers ------------------------------------------------------------------------------------------


@pytest.mark.skipif("ATTNLIB_DATA" not in os.environ, reason="ATTNLIB_DATA names no folder of models")
def test_the_snippet_works_with_tokenizers_of_small_models():
    folder = Path(os.environ["ATTNLIB_DATA"]) / "models"
    tokenizer = AutoTokenizer.from_pretrained(folder / "babyllama105")
    dataset = readme_snippet(SuccessorGenerator(tokenizer=tokenizer, seed=0, length=(2, 4)))
    check_dataset(dataset)
    item = dataset[0]
    assert tokenizer.decode(item["input_ids"][item["attention_mask"]]) == "<s>" + item["texts"][:-1]
    with pytest.raises(ValueError, match="one token per character, but the tokenizer has no token for '='"):
        LongAdditionGenerator(tokenizer=tokenizer)
    stories = AutoTokenizer.from_pretrained(folder / "stories260k")  # writes " a" and "a" as different tokens
    sample = task("string_reversal", stories, charset="abc= ".replace("=", "")).annotate("ab c=c ba")
    assert stories.decode(sample.input_ids, skip_special_tokens=True).lstrip() == "ab c=c ba"
    check_dataset(readme_snippet(LongAdditionGenerator(tokenizer=stories, seed=0)))


def byte_level(**special):
    """Tokens are bytes, "12" and " a", as in the vocabularies that GPT-2 began."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate([*alphabet, "12", "Ġa", "<eos>"])}
    raw = Tokenizer(models.BPE(vocabulary, [("1", "2"), ("Ġ", "a")]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=raw, **special)


def test_byte_level_tokens_are_characters_one_by_one():
    tokenizer = byte_level(eos_token="<eos>")
    sample = task("long_addition", tokenizer).annotate("1240+4335=5575")
    assert tokenizer.convert_ids_to_tokens(sample.input_ids) == [*"1240+4335=5575"], "no BOS, and no 12"
    assert sample.n_prompt == 10 and sample.evaluated.any(0).all()
    spaces = task("successor", tokenizer).annotate("9 10 ")
    assert tokenizer.convert_ids_to_tokens(spaces.input_ids) == ["9", "Ġ", "1", "0"]
    with pytest.raises(ValueError, match="has no single token for 'é', '€': it splits or changes"):
        task("string_reversal", tokenizer, charset="aé€")
    with pytest.raises(ValueError, match="no eos_token, which ends an answer"):
        task("long_addition", byte_level())


def test_a_tokenizer_that_changes_characters_is_refused():
    tokenizer = char_tokenizer("abc=")
    tokenizer.backend_tokenizer.normalizer = normalizers.Lowercase()
    assert task("string_reversal", tokenizer, charset="abc", length=(3, 3)).samples(1)[0].n_prompt == 5
    with pytest.raises(ValueError, match="has no single token for 'A'"):
        task("string_reversal", tokenizer, charset="Aabc")


# ---- instruction, examples, chat ---------------------------------------------------------------------------


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("name", TASKS)
def test_text_and_tokens_agree(name, chat):
    around = {"use_instruction": True, "use_few_shot": True, "apply_chat_template": chat}
    for sample in task(name, CHAT, **around, **FEW).samples(5):
        tokens = [*sample.input_ids.tolist(), int(sample.target_ids[-1])]
        assert tokens.count(CHAT.bos_token_id) == 1 and tokens[0] == CHAT.bos_token_id
        said = CHAT.decode(tokens)
        assert said == sample.text if chat else said in ("<bos>" + sample.text, f"<bos>{sample.text}<eos>")
        assert sample.prompt in sample.text and sample.text.count(sample.answer)
        answer = tokens[sample.n_prompt : sample.n_prompt + len(sample.answer)]
        assert CHAT.decode(answer) == sample.answer
        assert (sample.target_ids[: sample.n_prompt - 1] == IGNORE).all()
        assert sample.target_ids[sample.n_prompt - 1 :].tolist() == tokens[sample.n_prompt :]


@pytest.mark.parametrize("name", TASKS)
def test_reference_keys_are_the_same_characters_in_a_chat(name):
    plain = task(name, CHAT, **FEW)
    for chat in task(name, CHAT, apply_chat_template=True, use_instruction=True, **FEW).samples(20):
        alone = plain.annotate(chat.prompt + chat.answer)
        for one, other in ((alone, chat), (chat, alone)):
            rows, others = one.reference[one.n_prompt - 1 :], other.reference[other.n_prompt - 1 :]
            for row, counterpart in zip(rows, others, strict=False):
                assert one.input_ids[row].tolist() == other.input_ids[counterpart].tolist()
        assert chat.evaluated.any(1).nonzero()[0] == chat.n_prompt - 1
        assert chat.evaluated.any(0).nonzero()[0] == chat.n_prompt - len("\n<assistant>") - len(chat.prompt)


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize(
    "form", [{}, {"pad_with_zeros": False}, {"generate_carry": True}, {"use_flip": False}]
)
def test_the_examples_are_texts_of_the_task(name, form):
    if form and next(iter(form)) not in TASKS[name].__init__.__annotations__:
        form = {}
    g = task(name, CHARACTERS, use_few_shot=True, **form)
    shown = next(g.generate_samples()).text.split(":\n")[1].split("\n\n")[0]
    examples = [example for example in shown.split("\n") if example]
    assert len(examples) >= 2
    assert [g.annotate(example).prompt for example in examples]


def test_ones_own_words_and_examples():
    sample = task(
        "string_reversal",
        CHARACTERS,
        instruction="Reverse. ",
        few_shot_prompt=("Like ", "Now: "),
        few_shot_samples=["ab=ba"],
        use_instruction=True,
        use_few_shot=True,
    ).annotate("cd=dc")
    assert sample.text == "Reverse. Like ab=ba\nNow: cd=dc"
