"""Evaluation of causal models, row by row, against plain ways to compute the same."""

import json
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel

from attnlib.generators import (
    IGNORE,
    Batch,
    FlipFlopGenerator,
    LongAdditionGenerator,
    StringReversalGenerator,
    SuccessorGenerator,
    char_tokenizer,
)
from attnlib.measures import answer_texts, evaluate_rows, generate_answers, sample_scores
from attnlib.models.pretrained import load_language_model
from attnlib.models.transformer import Transformer, TransformerConfig
from attnlib.rollout import rollout, uniform_causal_rollout
from attnlib.stats import (
    answer_accuracy,
    compare,
    error_positions,
    mass_table,
    proportion,
    reference_mass,
)
from attnlib.stats.significance import NOT_ENOUGH
from attnlib.training.objectives import score_samples
from book.chapters.reasoning.measures import compare_rows, head_masses

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "statistics.json").read_text())
TOKENIZER = char_tokenizer()


def own(causal: bool = True) -> Transformer:
    torch.manual_seed(0)
    size = {"n_layers": 3, "n_heads": 2, "width": 16, "max_length": 40, "norm": "pre"}
    model = Transformer(TransformerConfig(len(TOKENIZER), causal=causal, **size)).eval()
    for layer in model.layers:  # far from uniform attention
        torch.nn.init.normal_(layer.attention.qkv.weight, std=0.5)
    return model


def gpt2() -> GPT2LMHeadModel:
    torch.manual_seed(0)
    size = {"n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "initializer_range": 0.3}
    config = GPT2Config(vocab_size=len(TOKENIZER), pad_token_id=0, bos_token_id=1, eos_token_id=2, **size)
    return GPT2LMHeadModel(config).eval()


MODELS = {"llama": lambda: load_language_model("tiny-random", device="cpu")[0], "gpt2": gpt2, "own": own}


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]()


@pytest.fixture(scope="module")
def batches():
    generator = LongAdditionGenerator(tokenizer=TOKENIZER, seed=1, length=(1, 4), num_of_nums=(2, 2))
    return generator.in_batches(generator.samples(20), size=8)


def attentions_of(model, ids: torch.Tensor) -> list[torch.Tensor]:
    if isinstance(model, Transformer):
        return list(model(ids, output_attentions=True).attentions.unbind(1))
    model.set_attn_implementation("eager")
    found = list(model(ids, output_attentions=True).attentions)
    model.set_attn_implementation("sdpa")
    return found


@torch.no_grad()
def test_rows_are_those_of_one_sample_at_a_time_with_its_attention_in_hand(model, batches):
    table = evaluate_rows(model, batches)
    expected, sample = [], -1
    for batch in batches:
        for row in range(len(batch)):
            sample += 1
            real = batch.attention_mask[row]
            ids, targets = batch.input_ids[row, real][None], batch.target_ids[row, real]
            masks = [each[row][real][:, real] for each in (batch.reference, batch.evaluated)]
            means = [layer.mean(1)[0] for layer in attentions_of(model, ids)]
            n, asked = len(targets), targets != IGNORE
            looks = {
                "rollout": rollout([mean[None, None] for mean in means])[0],
                "mean attention": torch.stack(means).mean(0),
                "uniform rollout": uniform_causal_rollout(n, len(means)).float(),
                "uniform attention": torch.ones(n, n).tril(),
            }
            columns = {name: reference_mass(look, *masks)[asked].numpy() for name, look in looks.items()}
            logits = model(ids).logits[0, asked]
            probability = logits.softmax(-1).gather(1, targets[asked][:, None])[:, 0].numpy()
            about = {"sample": sample, "position": range(int(asked.sum())), "n_answer": int(asked.sum())}
            chosen = {"target": targets[asked], "predicted": logits.argmax(-1), "probability": probability}
            expected.append(pd.DataFrame(about | chosen | columns))
    expected = pd.concat(expected, ignore_index=True).astype(float)
    pd.testing.assert_frame_equal(
        table[expected.columns].astype(float), expected, check_exact=False, atol=2e-5, rtol=1e-4
    )
    assert (table["correct"] == (table["target"] == table["predicted"])).all()
    assert (table["referenced"] == table["rollout"].notna()).all() and table["evaluated"].all()


def test_accuracy_is_that_of_training(model, batches):
    rows = evaluate_rows(model, batches, follow=())
    right = rows.groupby("sample")["correct"].sum().to_numpy()
    assert right.tolist() == score_samples(model, batches)[:, 0].tolist()
    samples = sample_scores(model, batches)
    pd.testing.assert_frame_equal(answer_accuracy(rows), answer_accuracy(samples))
    loss = -np.log(rows.groupby("sample")["probability"].prod())
    np.testing.assert_allclose(samples["loss"], loss, rtol=1e-4)


class Plain(torch.nn.Module):
    """Any PyTorch module that returns logits, and attentions if it has them."""

    def __init__(self, inside: Transformer, gives: tuple[str, ...] = ("logits", "attentions")) -> None:
        super().__init__()
        self.inside, self.gives = inside, gives

    def forward(self, input_ids, attention_mask):
        found = self.inside(input_ids, attention_mask, output_attentions=True)
        return SimpleNamespace(**{name: getattr(found, name) for name in self.gives})


def test_any_module_that_returns_logits_and_attentions_is_evaluated(batches):
    inside = own()
    expected = evaluate_rows(inside, batches)
    found = evaluate_rows(Plain(inside), batches)
    pd.testing.assert_frame_equal(found, expected, check_exact=False, atol=1e-5, rtol=1e-4)
    bare = Plain(inside, gives=("logits",))
    rows = evaluate_rows(bare, batches, follow=())
    pd.testing.assert_series_equal(rows["correct"], expected["correct"])
    pd.testing.assert_frame_equal(sample_scores(bare, batches), sample_scores(inside, batches))
    pd.testing.assert_frame_equal(head_masses(Plain(inside), batches), head_masses(inside, batches))
    with pytest.raises(ValueError, match="the model returned no attention"):
        evaluate_rows(bare, batches)
    with pytest.raises(ValueError, match="Plain is not causal: what it says at a token"):
        evaluate_rows(Plain(own(causal=False)), batches)
    pd.testing.assert_frame_equal(generate_answers(bare, batches), generate_answers(inside, batches))


def test_uniform_attention_scores_the_null_level(batches):
    model = own()
    for layer in model.layers:  # no queries, no preference
        torch.nn.init.zeros_(layer.attention.qkv.weight)
    rows = evaluate_rows(model, batches)
    for measure in ("rollout", "mean attention"):
        null = f"uniform {measure.removeprefix('mean ')}"
        np.testing.assert_allclose(rows[measure], rows[null], rtol=1e-4)
        table = mass_table(rows, measures=[measure])
        assert table["above"][0] == pytest.approx(0, abs=1e-5)
    assert not np.allclose(rows["uniform rollout"].dropna(), rows["uniform attention"].dropna())


def test_the_model_is_left_as_it_was(model, batches):
    measures = evaluate_rows, generate_answers, sample_scores
    expected = [measure(model, batches[:1]) for measure in measures]
    model.train()
    for measure, table in zip(measures, expected, strict=True):
        pd.testing.assert_frame_equal(measure(model, batches[:1]), table)
    assert model.training and all(module.training for module in model.modules())


@pytest.mark.parametrize("look", [evaluate_rows, generate_answers])
def test_models_that_see_the_answer_are_refused(look, batches):
    size = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    bert = BertForMaskedLM(BertConfig(vocab_size=len(TOKENIZER), **size)).eval()
    for model in (own(causal=False), bert):
        with pytest.raises(ValueError, match="is not causal"):
            look(model, batches)
    with pytest.raises(ValueError, match="predicts no token"):
        look(bert.bert, batches)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda batches: evaluate_rows(own(), batches, follow=["flow"]), "follow"),
        (lambda batches: evaluate_rows(own(), batches, follow="rollout"), "follow"),
        (lambda batches: evaluate_rows(own(), []), "batches"),
        (lambda batches: sample_scores(own(), []), "batches"),
        (lambda batches: evaluate_rows(own(), [replace(batches[0], reference=None)]), "batches"),
        (lambda batches: mass_table(masses(), measures=["probability"]), "measure"),
        (lambda batches: mass_table(masses(), "correct"), "by"),
        (lambda batches: mass_table(masses(), ["task"]), "rows"),
        (lambda batches: mass_table(masses()[["sample", "position"]]), "rows"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(call, name, batches):
    with pytest.raises(ValueError, match=f"^{name} must "):
        call(batches)


def test_without_a_reference_there_is_accuracy_only(batches):
    batch = batches[0]
    bare = Batch(batch.input_ids, batch.target_ids, batch.attention_mask)
    rows = evaluate_rows(own(), [bare], follow=())
    assert "rollout" not in rows and len(rows) == int((batch.target_ids != IGNORE).sum())


def test_padding_in_front_is_refused(batches):
    batch = batches[0]
    flipped = {name: each.flip(1) for name, each in vars(batch).items() if name.endswith(("ids", "mask"))}
    with pytest.raises(ValueError, match="padding on the right only"):
        evaluate_rows(own(), [replace(batch, **flipped)])


def test_nothing_evaluated_is_not_enough_data(batches):
    nowhere = [replace(batch, evaluated=torch.zeros_like(batch.evaluated)) for batch in batches]
    rows = evaluate_rows(own(), nowhere)
    assert not rows["evaluated"].any() and rows["rollout"].isna().all()
    table = mass_table(rows, ["correct"])
    assert (table["value"] == NOT_ENOUGH).all() and not table.isna().any().any()
    found = compare_rows(rows)
    assert found.problem and found.published.problem


def test_no_token_asked_for_is_an_empty_table(batches):
    batch = batches[0]
    silent = replace(batch, target_ids=torch.full_like(batch.target_ids, IGNORE))
    for rows in (evaluate_rows(own(), [silent]), generate_answers(own(), [silent])):
        assert rows.empty and error_positions(rows).empty
        assert (answer_accuracy(rows)["value"] == NOT_ENOUGH).all()
    assert (mass_table(evaluate_rows(own(), [silent]))["n"] == 0).all()
    mixed = evaluate_rows(own(), [silent, batch])
    assert mixed["sample"].min() == len(batch) and mixed["correct"].dtype == bool


@torch.no_grad()
def answered(model, batch: Batch, spoil: int) -> Batch:
    """The batch with the model's own answers, of which every `spoil`-th sample has one wrong token."""
    ids, targets = batch.input_ids.clone(), batch.target_ids.clone()
    for row in range(len(ids)):
        first, n = int((targets[row] != IGNORE).int().argmax()), int((targets[row] != IGNORE).sum())
        text = ids[row, : first + 1]
        for _ in range(n):
            text = torch.cat([text, model(text[None]).logits[0, -1:].argmax(-1)])
        if row % spoil == 0:
            text[first + 1 + row % n] = (text[first + 1 + row % n] + 1) % len(TOKENIZER)
        ids[row, : first + n] = text[:-1]
        targets[row, first : first + n] = text[first + 1 :]
    return replace(batch, input_ids=ids, target_ids=targets)


def test_greedy_answers_are_right_where_every_token_is(model, batches):
    made = [answered(model, batch, spoil=3) for batch in batches]
    forced, written = evaluate_rows(model, made, follow=()), generate_answers(model, made)
    whole = [rows.groupby("sample")["correct"].all() for rows in (forced, written)]
    assert whole[0].tolist() == whole[1].tolist() and 0.5 < whole[0].mean() < 0.8
    same = ["sample", "position", "n_answer", "target"]
    pd.testing.assert_frame_equal(forced[same], written[same])
    before = written["predicted"].to_numpy()[written["position"] == 0]
    assert (before == forced["predicted"].to_numpy()[forced["position"] == 0]).all()
    texts = answer_texts(written, TOKENIZER)
    assert texts["correct"].tolist() == whole[1].tolist()
    kept = texts[texts["correct"]]
    assert (kept["target"] == kept["predicted"]).all() and (texts["right"] <= texts["n_answer"]).all()


def test_answers_that_do_not_fit_are_refused(batches):
    longest = max(batch.input_ids.shape[1] for batch in batches)
    torch.manual_seed(0)
    sizes = {"n_layers": 1, "n_heads": 1, "width": 8, "causal": True}
    model = Transformer(TransformerConfig(len(TOKENIZER), max_length=longest, **sizes)).eval()
    assert len(generate_answers(model, batches))
    model = Transformer(TransformerConfig(len(TOKENIZER), max_length=longest - 1, **sizes)).eval()
    with pytest.raises(ValueError, match="more than the model's context"):
        generate_answers(model, batches)


@pytest.mark.parametrize("name", MODELS)
def test_a_long_prompt_and_a_long_answer_of_different_samples_fit_each_by_itself(name):
    model, ids = MODELS[name](), torch.randint(3, 30, (2, 19))
    targets = torch.full_like(ids, IGNORE)
    targets[0, 17:], targets[1, 2:] = 5, 5  # 18 tokens and 2 more, 3 and 17 more
    real = torch.ones_like(ids, dtype=torch.bool)
    batch = Batch(ids, targets, real)
    together = generate_answers(model, [batch])
    if isinstance(model, Transformer):
        model.config = replace(model.config, max_length=20)
    else:
        model.config.max_position_embeddings = 20
    pd.testing.assert_frame_equal(generate_answers(model, [batch]), together)


def test_losses_are_summed_in_single_precision(model, batches):
    model.bfloat16()
    for batch in batches:
        logits = model(batch.input_ids).logits.float()
        losses = torch.nn.functional.cross_entropy(
            logits.mT, batch.target_ids, ignore_index=IGNORE, reduction="none"
        )
        found = sample_scores(model, [batch])["loss"].to_numpy()
        assert found == pytest.approx(losses.sum(1).detach().double().numpy(), rel=1e-4)


def made_up() -> pd.DataFrame:
    """Four answers; the third is empty, as in the golden data."""
    rows = [
        {"sample": sample, "position": position, "n_answer": len(answer), "correct": bool(right)}
        for sample, answer in enumerate(GOLDEN["error_positions"]["matrix"])
        for position, right in enumerate(answer)
    ]
    return pd.DataFrame(rows)


def test_error_positions_by_hand():
    rows = made_up()
    table = error_positions(rows)
    assert table["position"].tolist() == [0, 1, 2, 3, 4] and table["n"].tolist() == [3, 3, 2, 2, 1]
    assert table["value"].tolist() == pytest.approx([2 / 3, 1, 1 / 2, 1, 1])
    assert table["errors"].tolist() == [1, 0, 1, 0, 0] == table["first_errors"].tolist()
    wilson = proportion(1, 2)
    assert (table["low"][2], table["high"][2]) == pytest.approx((wilson.low, wilson.high))
    both_wrong = error_positions(rows.assign(correct=False))
    assert both_wrong["first_errors"].tolist() == [3, 0, 0, 0, 0]
    pd.testing.assert_frame_equal(error_positions(rows.set_index(rows["sample"] * 0)), table)


def test_accuracy_is_of_one_run_and_split_or_of_what_by_tells_apart():
    rows = pd.DataFrame({"sample": [0, 0, 1, 1], "position": [0, 1] * 2, "correct": True})
    both = pd.concat([rows.assign(run="a"), rows.assign(run="b", correct=False)])
    assert answer_accuracy(both, ["run"])["value"].tolist() == [1, 1, 0, 0]
    with pytest.raises(ValueError, match=r"^each \(sample, position\) must "):
        answer_accuracy(both)


def masses() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    sample, position = np.repeat(np.arange(12), 5), np.tile(np.arange(5), 12)
    mass = np.where(position == 0, np.nan, rng.random(60))
    about = {"sample": sample, "position": position, "n_answer": 5, "correct": True}
    return pd.DataFrame(about | {"rollout": mass, "uniform rollout": np.where(position == 0, np.nan, 0.25)})


def test_mass_table_counts_samples_and_shows_empty_groups():
    rows = masses()
    whole = mass_table(rows).iloc[0]
    means = rows.groupby("sample")["rollout"].mean()
    assert whole["value"] == pytest.approx(means.mean()) and (whole["n"], whole["rows"]) == (12, 48)
    assert whole["low"] < whole["value"] < whole["high"] and whole["uniform"] == pytest.approx(0.25)
    assert whole["above"] == pytest.approx(means.mean() - 0.25) and whole["above_low"] > 0
    table = mass_table(rows, ["correct"]).set_index("correct")
    assert table.loc[False, "value"] == NOT_ENOUGH and table.loc[False, "n"] == 0
    assert not table.isna().any().any()
    split = pd.Categorical(["ID"] * 60, categories=["ID", "OOD"])
    table = mass_table(rows.assign(split=split), ["split", "correct"])
    assert table["split"].tolist() == ["ID", "ID", "OOD", "OOD"] and (table["n"] == [12, 0, 0, 0]).all()


def test_evaluation_as_published_is_the_originals():
    case, theirs = GOLDEN["evaluate"], GOLDEN["evaluate"]["out"]
    labels = torch.tensor(case["labels"])
    runs = [
        reference_mass(
            torch.tensor(case[name], dtype=torch.float64), labels == 1, labels != IGNORE, as_published=True
        )
        for name in ("attention", "compare_with")
    ]
    assert runs[0][~runs[0].isnan()].tolist() == pytest.approx(theirs["percentages"])
    found = compare(*runs, as_published=True)
    expected = [theirs["comparison"][key] for key in ("t_stat", "df", "p_value")]
    assert [found.statistic, found.df, found.p] == pytest.approx(expected)


def test_correct_against_wrong_as_published_is_the_originals():
    case, theirs = GOLDEN["correlation"], GOLDEN["correlation"]["out"]
    attention, labels, target, predicted = (
        torch.tensor(case[name]).flatten(0, 1)
        for name in ("attention", "labels", "target_ids", "predicted_ids")
    )
    mass = reference_mass(attention.double(), labels == 1, labels != IGNORE)
    asked = target != IGNORE
    rows = pd.DataFrame(
        {
            "sample": asked.nonzero()[:, 0].numpy(),
            "correct": (predicted == target)[asked].numpy(),
            "rollout": mass[asked].numpy(),
            "evaluated": (labels != IGNORE).any(-1)[asked].numpy(),
        }
    )
    found = compare_rows(rows).published
    expected = [theirs[key] for key in ("t_stat", "df", "p_value")]
    assert [found.statistic, found.df, found.p] == pytest.approx(expected, rel=1e-6)
    assert found.rows == (theirs["correct"]["n"], theirs["error"]["n"])


@pytest.mark.parametrize(
    ("generator", "published"),
    [
        (LongAdditionGenerator(tokenizer=TOKENIZER, length=(1, 4), num_of_nums=(2, 2)), 0.809),
        (StringReversalGenerator(tokenizer=TOKENIZER, length=(1, 10)), 0.851),
        (SuccessorGenerator(tokenizer=TOKENIZER, start_number_range=(1, 90), length=(2, 4)), 0.831),
        (FlipFlopGenerator(tokenizer=TOKENIZER, length=(1, 10)), 0.5),
    ],
    ids=lambda each: type(each).__name__,
)
def test_perfect_attention_scores_one_and_less_as_published(generator, published):
    scores = {False: [], True: []}
    for sample in islice(generator.generate_samples(), 300):
        for flag, found in scores.items():
            perfect = sample.reference.float() + 1e-9 * (~sample.reference)
            mass = reference_mass(perfect, sample.reference, sample.evaluated, as_published=flag)
            found.append(mass[~mass.isnan()])
    ours, theirs = (torch.cat(scores[flag]).double() for flag in (False, True))
    torch.testing.assert_close(ours, torch.ones_like(ours))
    assert float(theirs.mean()) == pytest.approx(published, abs=0.03)
