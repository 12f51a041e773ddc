"""The six algorithmic tasks: reproducible, split, in batches, in prompts, with any tokenizer."""

import hashlib
import os
from itertools import combinations, islice
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
    parts = ("input_ids", "target_ids", "reference", "evaluated")
    equal = all(torch.equal(getattr(one, part), getattr(other, part)) for part in parts)
    return equal and (one.text, one.prompt, one.answer) == (other.text, other.prompt, other.answer)


# ---- reproducible, split --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TASKS)
def test_a_sample_depends_on_seed_and_index_only(name):
    g = task(name, CHARACTERS, seed=5, **FEW)
    later = g.samples(10, start=250)  # over the border of two chunks
    again = task(name, CHARACTERS, seed=5, **FEW)
    assert all(map(same, later, islice(again.generate_samples(), 250, 260)))
    assert all(map(same, again.samples(4, start=254), later[4:8]))
    other = task(name, CHARACTERS, seed=6, **FEW).samples(50)
    assert [sample.text for sample in other] != [sample.text for sample in g.samples(50)]


SETS = {
    "string_reversal": {"charset": set("qwertzuiop")},
    "value_assignment": {
        "charset_from": set("abcdefghi"),
        "charset_to": set("0123456789"),
        "encoding_length": (2, 9),
    },
}


def test_texts_are_the_same_in_every_process():
    """Characters come from sets, whose order differs from process to process; records stand on the texts."""
    short = {"tokenizer": CHARACTERS, "seed": 1, "length": (2, 4)}
    drawn = [task(name, **short, **SETS.get(name, {})).samples(20) for name in TASKS]
    said = "\n".join(sample.text for samples in drawn for sample in samples)
    assert hashlib.sha256(said.encode()).hexdigest()[:16] == "5baff49bcf4d68c9"


@pytest.mark.parametrize(("most", "length", "padded"), [(2, (1, 4), True), (3, (1, 2), False)])
def test_splits_share_no_sum_in_another_order(most, length, padded):
    how = {"length": length, "num_of_nums": (2, most), "pad_with_zeros": padded}

    def sums(split, n):
        drawn = task("long_addition", CHARACTERS, split=split, generate_attn_labels=False, **how).samples(n)
        return {tuple(sorted(int(one[::-1]) for one in sample.prompt[:-1].split("+"))) for sample in drawn}

    train, valid, test = sums("train", 8_000), sums("valid", 500), sums("test", 500)
    assert not (test & train or valid & train or valid & test)


@pytest.mark.parametrize("name", TASKS)
def test_splits_share_no_text(name):
    texts = {
        split: {sample.text for sample in task(name, CHARACTERS, seed=seed, split=split, **FEW).samples(500)}
        for seed, split in enumerate(("train", "valid", "test"))
    }
    assert all(len(found) > 10 for found in texts.values())
    assert all(texts[one].isdisjoint(texts[other]) for one, other in combinations(texts, 2))
    drawn = {sample.text for sample in task(name, CHARACTERS, seed=3, **FEW).samples(500)}
    assert len(drawn - texts["test"] - texts["valid"]) > 0.6 * len(drawn)


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
            assert made.attention_mask[row, :n].all() and not made.attention_mask[row, n:].any()
            for part, padding in (("input_ids", CHAT.pad_token_id), ("target_ids", IGNORE)):
                assert torch.equal(getattr(made, part)[row, :n], getattr(sample, part))
                assert (getattr(made, part)[row, n:] == padding).all()
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


def test_all_samples_once_in_their_order():
    g = task("successor", CHARACTERS)
    samples = g.samples(70)
    batches = g.in_batches(iter(samples), size=32)
    assert [len(batch) for batch in batches] == [32, 32, 6]
    assert torch.equal(batches[2].input_ids[5, : len(samples[69].input_ids)], samples[69].input_ids)


def test_without_labels_there_is_no_reference():
    g = task("long_addition", CHARACTERS, generate_attn_labels=False)
    samples = g.samples(3)
    assert all(sample.reference is None and sample.evaluated is None for sample in samples)
    assert g.batch(samples).reference is None and g.batches(3, reference=True)(0).reference is None
    assert set(g.generate_dataset(samples)[0]) == {"texts", "input_ids", "target_ids", "attention_mask"}


def test_a_data_set_has_one_value_where_nothing_is_predicted():
    g = task("successor", CHARACTERS)
    samples = g.samples(20)
    plain, other = (g.generate_dataset(samples, ignore_index=value).batch.target_ids for value in (None, -1))
    assert (plain == IGNORE).any() and not (other == IGNORE).any()
    assert torch.equal(other, plain.masked_fill(plain == IGNORE, -1))


def checked_readme_snippet(data_generator):
    """The data set that the original's README makes."""
    samples = islice(data_generator.generate_samples(), 100)
    dataset = data_generator.generate_dataset(samples)
    assert isinstance(dataset, Dataset) and len(dataset) == 100
    for batch in DataLoader(dataset, batch_size=16):
        rows, longest = batch["input_ids"].shape
        assert rows == len(batch["texts"]) and batch["target_ids"].shape == (rows, longest)
        assert batch["attn_labels"].shape == batch["reference"].shape == (rows, longest, longest)
        assert torch.equal(batch["attn_labels"] == 1, batch["reference"] & batch["evaluated"])
        assert torch.equal(batch["attn_labels"] == IGNORE, ~batch["evaluated"])
    return dataset


def test_the_originals_readme_snippet_works():
    settings = {"seed": 0, "length": (1, 4), "num_of_nums": (2, 2)}
    checked_readme_snippet(LongAdditionGenerator(tokenizer=CHARACTERS, **settings))


# ---- tokenizers ------------------------------------------------------------------------------------------


@pytest.mark.skipif("ATTNLIB_DATA" not in os.environ, reason="ATTNLIB_DATA names no folder of models")
def test_the_snippet_works_with_tokenizers_of_small_models():
    folder = Path(os.environ["ATTNLIB_DATA"]) / "models"
    tokenizer = AutoTokenizer.from_pretrained(folder / "babyllama105")
    item = checked_readme_snippet(SuccessorGenerator(tokenizer=tokenizer, seed=0, length=(2, 4)))[0]
    assert tokenizer.decode(item["input_ids"][item["attention_mask"]]) == "<s>" + item["texts"][:-1]
    with pytest.raises(ValueError, match=r"^tokenizer must .* no token for '='"):
        LongAdditionGenerator(tokenizer=tokenizer)
    stories = AutoTokenizer.from_pretrained(folder / "stories260k")  # writes " a" and "a" as different tokens
    sample = task("string_reversal", stories, charset="abc ").annotate("ab c=c ba")
    assert stories.decode(sample.input_ids, skip_special_tokens=True).lstrip() == "ab c=c ba"
    checked_readme_snippet(LongAdditionGenerator(tokenizer=stories, length=(1, 3)))


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
    with pytest.raises(ValueError, match="no single token for 'é', '€'"):
        task("string_reversal", tokenizer, charset="aé€")
    with pytest.raises(ValueError, match=r"^tokenizer must have an eos_token"):
        task("long_addition", byte_level())


def test_a_tokenizer_that_changes_characters_is_refused():
    tokenizer = char_tokenizer("abc=")
    tokenizer.backend_tokenizer.normalizer = normalizers.Lowercase()
    assert task("string_reversal", tokenizer, charset="abc", length=(3, 3)).samples(1)[0].n_prompt == 5
    with pytest.raises(ValueError, match="no single token for 'A'"):
        task("string_reversal", tokenizer, charset="Aabc")


# ---- instruction, examples, chat ---------------------------------------------------------------------------


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("name", TASKS)
def test_text_and_tokens_agree(name, chat):
    around = {"use_instruction": True, "use_few_shot": True, "apply_chat_template": chat}
    plain, middle = task(name, CHAT, **FEW), len("\n<assistant>") * chat
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
        assert sample.evaluated.any(1).nonzero()[0] == sample.n_prompt - 1
        assert sample.evaluated.any(0).nonzero()[0] == sample.n_prompt - middle - len(sample.prompt)
        alone = plain.annotate(sample.prompt + sample.answer)
        rows, others = alone.reference[alone.n_prompt - 1 :], sample.reference[sample.n_prompt - 1 :]
        for row, other in zip(rows, others, strict=False):
            assert alone.input_ids[row].tolist() == sample.input_ids[other].tolist()


FORMS = [
    *[(name, {}) for name in TASKS],
    ("long_addition", {"pad_with_zeros": False}),
    ("long_multiplication", {"generate_carry": True, "pad_with_zeros": False}),
    ("flip_flop", {"use_flip": False}),
]


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_the_examples_are_texts_of_the_task(name, form):
    g = task(name, CHARACTERS, use_few_shot=True, **form)
    shown = next(g.generate_samples()).text.split(":\n")[1].split("\n\n")[0]
    examples = [example for example in shown.split("\n") if example]
    assert len(examples) >= 2
    assert [g.annotate(example).prompt for example in examples]


def test_ones_own_words_and_examples():
    told = {"instruction": "Reverse. ", "few_shot_prompt": ("Like ", "Now: "), "few_shot_samples": ["ab=ba"]}
    g = task("string_reversal", CHARACTERS, use_instruction=True, use_few_shot=True, **told)
    assert g.annotate("cd=dc").text == "Reverse. Like ab=ba\nNow: cd=dc"


def test_what_a_carry_depends_on_is_the_sums_and_not_the_settings():
    """Of two numbers a column hands on 1 at most, also where others of the sample have three."""
    generator = LongAdditionGenerator(
        tokenizer=char_tokenizer(), seed=0, length=(1, 4), num_of_nums=(2, 3), enlarged=True
    )
    for sample in generator.samples(60):
        alone = generator.annotate(sample.text)
        assert torch.equal(sample.reference, alone.reference), sample.text


def test_no_samples_from_further_on_are_no_samples():
    generator = LongAdditionGenerator(tokenizer=char_tokenizer(), seed=0)
    assert generator.samples(0, start=5) == generator.samples(0) == []
