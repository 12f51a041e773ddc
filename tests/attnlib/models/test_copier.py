"""The copier: the original's numbers, gradients of the recurrence, models that know nothing of each other."""

import json
from pathlib import Path

import pytest
import torch

from attnlib.generators.copying import CopyBatch, Copying
from attnlib.models.copier import Copier, CopierConfig, copying_loss, copying_scores, initial_weights
from attnlib.models.recurrence import gru, lstm
from attnlib.training import Plan, fit

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "copying.json").read_text())
CASES = GOLDEN["cases"]
LSTM = {
    "embedding.weight": "embedding",
    "after_decoder_hidden": "to_joined",
    "hidden2vocab": "to_vocabulary",
    "attn_lin": "to_query",
    "project_enc": "to_context",
}
GRU = {
    "enc_embedding.weight": "embedding",
    "dec_embedding.weight": "target_embedding",
    "encoder_rnn": "encoder",
    "decoder_rnn": "decoder",
    "after_decoder_hidden": "to_joined",
    "out_lin": "to_vocabulary",
}


def tensor(packed):
    return torch.tensor(packed["values"]).view(packed["shape"])


def ours(case, name, value):
    """The original's name and tensor of a weight (or its gradient) as ours."""
    for theirs, our_name in (LSTM if case["kind"] == "lstm" else GRU).items():
        name = name.replace(theirs, our_name)
    name = name.replace("_lstm.", ".").replace(".", "_").removesuffix("_l0")
    if name.endswith("_reverse"):
        name = name.replace("encoder", "reverse").removesuffix("_l0_reverse")
    if name.startswith("to_query") or name.startswith("to_context"):
        value = value[None]
    if name == "to_joined_weight" and case["kind"] == "gru":
        value = torch.cat(value.chunk(2, -1)[::-1], -1)  # there the context comes first
    return name, value


def all_ours(case, part):
    found = {}
    for name, packed in case[part].items():
        if name.startswith("attn_heads"):
            _, _, kind, rest = name.split(".")
            name = f"{ {'attn_proj': 'to_query', 'enc_proj': 'to_context'}[kind] }_{rest}"
            found.setdefault(name, []).append(tensor(packed))
        else:
            found.update([ours(case, name, tensor(packed))])
    return {name: torch.stack(value) if isinstance(value, list) else value for name, value in found.items()}


def config_of(case, **changes):
    gru = {"cell": "gru", "shared": False, "n_heads": case.get("n_heads", 1)}
    lstm = {name: case.get(name) for name in ("bidirectional", "context")}
    sizes = {"vocabulary": case["symbols"] + 2, "hidden": case["hidden"]}
    return CopierConfig(**sizes, **(lstm if case["kind"] == "lstm" else gru), **changes)


def golden_model(case):
    model = Copier(config_of(case))
    model.load_state_dict({name: value[None] for name, value in all_ours(case, "weights").items()})
    return model


def batch_of(source, symbols):
    source = torch.tensor(source)
    start = torch.full_like(source[:, :1], symbols + 1)
    return CopyBatch(source[None], torch.cat([start, source], 1)[None])


def small(task=None, **settings):
    task = task or Copying(4, 5)
    return Copier(CopierConfig(task.vocabulary, **{"hidden": 6} | settings)), task


def name_of(case):
    return "-".join(str(case.get(part, "")) for part in ("kind", "bidirectional", "context", "n_heads"))


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_the_originals_loss_attention_predictions_and_gradients(case):
    model, batch = golden_model(case), batch_of(case["source"], case["symbols"])
    copied = model(**batch.inputs)
    close = {"atol": 1e-5, "rtol": 0}
    torch.testing.assert_close(copied.logits.log_softmax(-1)[0], tensor(case["log_probabilities"]), **close)
    attention = tensor(case["attention"])
    attention = attention if case["kind"] == "gru" else attention[:, None]
    torch.testing.assert_close(copied.alpha[0], attention, **close)
    loss = copying_loss(model, batch)["loss"]
    assert loss.item() == pytest.approx(case["loss"], abs=1e-5)
    loss.backward()
    theirs = all_ours(case, "gradients")
    for name, weight in model.named_parameters():
        wanted = theirs.get(name, torch.zeros(weight.shape[1:]))
        found = torch.zeros_like(wanted) if weight.grad is None else weight.grad[0]
        torch.testing.assert_close(found, wanted, **close, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("case", [case for case in CASES if case["kind"] == "lstm"], ids=name_of)
def test_weights_begin_as_the_originals_do_with_the_same_seed(case):
    theirs, found = all_ours(case, "weights"), initial_weights(config_of(case), case["seed"])
    assert theirs.keys() == found.keys()
    for name, weight in theirs.items():
        torch.testing.assert_close(found[name], weight, atol=1e-6, rtol=0)


def test_the_originals_training():
    there = GOLDEN["training"]
    model = Copier(CopierConfig(there["symbols"] + 2, there["hidden"], seeds=(there["seed"],)))
    losses = []
    plan = Plan(steps=len(there["losses"]), device="cpu")
    hooks = [lambda event: losses.append(event.losses["loss"].item())]
    batches = [batch_of(source, there["symbols"]) for source in there["sources"]]
    fit(model, batches.__getitem__, copying_loss, plan, hooks=hooks, progress=False)
    assert losses == pytest.approx(there["losses"], abs=1e-5)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_the_recurrences_gradient_is_the_slope(cell):
    torch.manual_seed(1)
    gates = {"lstm": 4, "gru": 3}[cell] * 2
    shapes = {"table": (2, 3, gates), "weight": (2, gates, 2), "first": (2, 2, 2), "second": (2, 2, 2)}
    inputs = {name: torch.randn(*shape, dtype=torch.float64) for name, shape in shapes.items()}
    ids = torch.randint(3, (2, 2, 4))

    def ours(table, weight, first, second):
        if cell == "lstm":
            return lstm(table, ids, weight, first, second)
        return gru(table, ids, weight, second[:, 0], first)

    given = [value.requires_grad_() for value in inputs.values()]
    assert torch.autograd.gradcheck(ours, given)


SETTINGS = [
    {},
    {"bidirectional": True},
    {"context": "uniform"},
    {"context": "none", "bidirectional": True},
    {"cell": "gru", "n_heads": 3, "shared": False},
]


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_a_model_trains_to_the_same_numbers_whatever_stands_beside_it(setting):
    task, plan = Copying(4, 5), Plan(steps=8, learning_rate=0.01, device="cpu")
    trained = {}
    for seeds in [(3, 5, 4), (5,)]:
        model = small(task, seeds=seeds, **setting)[0]
        fit(model, task.batches(6, seeds), copying_loss, plan, progress=False)
        trained[seeds] = model.state_dict()
    for name, weight in trained[5,].items():
        torch.testing.assert_close(trained[3, 5, 4][name][1], weight[0], atol=1e-5, rtol=1e-4)


def test_more_heads_leave_all_else_as_it_was():
    one, many = (initial_weights(CopierConfig(7, 4, n_heads=n), 0) for n in (1, 3))
    for name, weight in one.items():
        assert torch.equal(
            many[name][:1] if name.startswith(("to_query", "to_context")) else many[name], weight
        )


def test_context_of_a_state_is_what_attention_on_it_alone_gives():
    model, task = small(n_heads=2, seeds=(0, 1))
    copied = model(**task.batch(3, [[0], [1]]).inputs)
    sources = copied.encoded.states
    one = model.context_of(sources[:, :, None])
    each = [model.context_of(sources[:, :, None, place : place + 1]) for place in range(sources.shape[2])]
    torch.testing.assert_close(one, torch.cat(each, 2))
    wanted = (
        sources @ model.to_context_weight.mean(1)[:, None].mT + model.to_context_bias.mean(1)[:, None, None]
    )
    torch.testing.assert_close(one, wanted)


def test_it_is_saved_and_read_back_and_scored(tmp_path):
    model, task = small(seeds=(1, 2))
    batch = task.batch(5, [[0], [1]])
    model.save(tmp_path / "model.safetensors")
    again = Copier.load(tmp_path / "model.safetensors")
    assert again.config == model.config
    assert torch.equal(again(**batch.inputs).logits, model(**batch.inputs).logits)
    scores = copying_scores(model, [batch])
    right = model(**batch.inputs).logits.argmax(-1) == batch.predicted
    assert scores == {"accuracy": pytest.approx(right.double().mean().item())}


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_bf16_is_close(setting):
    model, task = small(seeds=(1, 2), **setting)
    batch = task.batch(5, [[0], [1]])
    exact = copying_loss(model, batch)["loss"]
    (whole,) = torch.autograd.grad(exact, [model.decoder_weight_hh])
    with torch.autocast("cpu", torch.bfloat16):
        rounded = copying_loss(model, batch)["loss"]
    (short,) = torch.autograd.grad(rounded, [model.decoder_weight_hh])
    assert rounded.item() == pytest.approx(exact.item(), rel=1e-2)
    assert torch.nn.functional.cosine_similarity(whole.flatten(), short.flatten(), 0) > 0.99
