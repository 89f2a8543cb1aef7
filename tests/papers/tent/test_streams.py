"""Streams and measurements on a small prepared data set and an untrained source network."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from papers.tent import measurements
from papers.tent.measurements import METHODS, build, corruptions, identities, shifts, unseen
from papers.tent.model import ResNet
from papers.tent.module import SourceClassifier
from papers.tent.streams import Streams, load_source
from shared.data.load import PreparedData
from shared.records.base import RecordError, write_json
from shared.records.dataset import Manifest
from shared.records.experiment import RunKey, RunSettings

NET = {"depth": 8, "width": 4, "in_channels": 1, "stem_stride": 2, "num_classes": 4}
KINDS = ("noise", "fog")
MEAN, STD = 0.3, 0.25


@pytest.fixture
def make_run(tmp_path, monkeypatch):
    """A run of any seed that needs two source networks, and finds small data."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    arrays = {
        "test_labels": rng.integers(0, 4, 60),
        "train_labels": rng.integers(0, 4, 60),
    }
    for kind in KINDS:
        for severity in (1, 5):
            name = f"{kind}_{severity}_images"
            arrays[f"test_{name}"] = rng.integers(0, 256, (60, 1, 12, 12), dtype=np.uint8)
        arrays[f"train_{kind}_5_images"] = rng.integers(0, 256, (60, 1, 12, 12), dtype=np.uint8)
    manifest = Manifest(dataset="small", arrays={}, num_classes=4, mean=(), std=(), raw_sha256={})
    data = PreparedData(manifest, "", arrays)
    needs = {}
    for index, norm in enumerate(("batchnorm", "groupnorm")):
        torch.manual_seed(index)
        module = SourceClassifier(norm=norm, **NET)
        module.pixel_mean.fill_(MEAN)
        module.pixel_std.fill_(STD)
        key = RunKey(scale="smoke", paper="tent", experiment="source", arm=norm, seed=0)
        key.directory().mkdir(parents=True)
        save_file(module.state_dict(), key.directory() / "weights.safetensors")
        settings = RunSettings(
            key=key,
            kind="training",
            entry="module:SourceClassifier",
            data=None,
            dataset=None,
            trainer=None,
            settings={"norm": norm, "lr": 0.1, **NET},
            norm=None,
            needs={},
            threads=1,
        )
        write_json(key.directory() / "settings.json", settings)
        needs[norm] = key

    def make(seed=0):
        return SimpleNamespace(
            key=SimpleNamespace(seed=seed),
            settings=SimpleNamespace(needs=needs),
            device=torch.device("cpu"),
            dataset=lambda: data,
            artifact=lambda name: needs[name].directory() / "weights.safetensors",
        )

    return make


def rows(measured):
    return {(row.metric, row.split, row.step): row.value for row in measured}


def test_the_source_is_the_trained_network_with_its_own_statistics(make_run):
    run = make_run()
    source = load_source(run, "batchnorm")
    torch.manual_seed(0)
    expected = SourceClassifier(norm="batchnorm", **NET).net.eval()
    pixels = torch.from_numpy(run.dataset().array("test_fog_5_images"))
    x_NCHW = source.standardise(pixels)
    torch.testing.assert_close(x_NCHW, (pixels / 255 - MEAN) / STD)
    torch.testing.assert_close(source.net(x_NCHW), expected(x_NCHW))


def test_the_order_of_the_stream_follows_from_the_seed_alone(make_run):
    def labels(seed, kind="fog", order="shuffled"):
        run = make_run(seed)
        images = Streams(run, load_source(run, "batchnorm"), 7, order=order).of(kind)
        return torch.cat([labels_N for _, labels_N in images])

    assert torch.equal(labels(0), labels(0, "noise"))
    assert not torch.equal(labels(0), labels(1))
    in_order = labels(0, order="sorted")
    assert torch.equal(in_order, in_order.sort().values)
    assert torch.equal(labels(1).sort().values, in_order)


def test_images_and_labels_stay_together(make_run):
    run = make_run(3)
    source = load_source(run, "batchnorm")
    images = Streams(run, source, 7, num_images=40).of("fog")
    arrays = run.dataset().arrays
    seen = []
    for x_NCHW, labels_N in images:
        for x, label in zip(x_NCHW, labels_N, strict=True):
            pixels = (x * STD + MEAN) * 255
            (index,) = [
                i
                for i in range(40)
                if np.abs(arrays["test_fog_5_images"][i] - pixels.numpy()).max() < 0.01
            ]
            assert label == arrays["test_labels"][index]
            seen.append(index)
    assert sorted(seen) == list(range(40))
    with pytest.raises(ValueError, match="num_images: got 61, expected at most the 60 images"):
        Streams(run, source, 7, num_images=61).of("fog")


@pytest.mark.parametrize("method", METHODS)
def test_every_method_yields_an_error_for_each_corruption_and_pass(make_run, method):
    found = rows(corruptions(make_run(), method, KINDS, batch_size=20, lr=0.01, epochs=2))
    passes = (1, 2) if METHODS[method].adapts else (1,)
    for step in passes:
        errors = [found["error_percent", kind, step] for kind in KINDS]
        assert all(0 <= error <= 100 for error in errors)
        assert found["mean_error_percent", "none", step] == pytest.approx(sum(errors) / 2)
    first, last = (found["mean_error_percent", "none", step] for step in (1, passes[-1]))
    assert found["error_change_percent", "none", 0] == last - first
    if not METHODS[method].adapts:
        assert found["mean_offline_error_percent", "none", 0] == first
    assert len(found) == (len(passes) + 1) * 3 + 1


def test_the_model_is_reset_before_each_corruption(make_run):
    """The second corruption gives the same numbers as if it were the only one."""
    both = rows(corruptions(make_run(), "tent", KINDS, batch_size=20, lr=0.1, epochs=2))
    alone = rows(corruptions(make_run(), "tent", KINDS[1:], batch_size=20, lr=0.1, epochs=2))
    for metric, step in (("error_percent", 1), ("error_percent", 2), ("offline_error_percent", 0)):
        assert both[metric, KINDS[1], step] == alone[metric, KINDS[1], step]


def test_methods_adapt_what_their_names_say(make_run):
    source = load_source(make_run(), "batchnorm")
    x_NCHW = source.standardise(torch.randint(0, 256, (20, 1, 12, 12), dtype=torch.uint8))
    start = source.net.state_dict()
    for name, method in METHODS.items():
        model = build(name, source, 0.01)
        logits = model(x_NCHW) if method.adapts else model.predict(x_NCHW)
        plain = torch.allclose(logits, source.net(x_NCHW), atol=1e-5)
        assert plain == (method.statistics == "source"), name
        after = model.model.state_dict()
        moved = {key for key in start if not torch.equal(start[key], after[key])}
        norms = {key for key in start if "norm" in key or "shortcut.1" in key}
        affine = {key for key in norms if key.endswith((".weight", ".bias"))}
        last = {"classifier.weight", "classifier.bias"}
        expected = {"source": set(), "bn": set()}.get(name, affine)
        if name.startswith("last_layer"):
            expected = last
        if name.startswith("all_parameters"):
            expected = {key for key, _ in source.net.named_parameters()}
        assert moved == expected, name


def test_shifts_record_changes_and_the_shares_in_which_they_fall(make_run):
    found = rows(shifts(make_run(), "tent", KINDS, (1, 5), batch_size=20, lr=0.05, num_images=60))
    entropy = [found["entropy_change", kind, severity] for kind in KINDS for severity in (1, 5)]
    loss = [found["loss_change", kind, severity] for kind in KINDS for severity in (1, 5)]
    assert max(entropy) < 0  # what it minimises
    both = sum(a < 0 and b < 0 for a, b in zip(entropy, loss, strict=True)) / 4
    assert found["share_where_both_fall", "none", 0] == both
    assert found["share_where_entropy_fall", "none", 0] == 1
    assert found["share_where_loss_fall", "none", 0] == sum(x < 0 for x in loss) / 4
    plain = rows(shifts(make_run(), "bn", KINDS, (1, 5), batch_size=20, lr=0.05, num_images=60))
    assert {metric for metric, _, _ in plain} == {"error_percent", "mean_error_percent"}


def test_adapting_on_nothing_is_the_batch_norm_baseline(make_run):
    run = make_run()
    baseline = rows(corruptions(run, "bn", KINDS, batch_size=20, lr=0.0))
    on = {
        name: rows(unseen(run, name, KINDS, batch_size=20, lr=0.05))
        for name in ("nothing", "test", "train")
    }
    key = ("mean_error_percent", "none", 0)
    assert on["nothing"][key] == baseline["mean_error_percent", "none", 1]
    offline = rows(corruptions(run, "tent", KINDS, batch_size=20, lr=0.05))
    assert on["test"][key] == offline["mean_offline_error_percent", "none", 0]
    assert on["train"] != on["test"]


@pytest.mark.parametrize("source", ["batchnorm", "groupnorm"])
def test_the_identities_hold_and_would_be_seen_if_they_did_not(make_run, source, monkeypatch):
    def measure():
        measured = identities(make_run(), source, "fog", batch_size=20, num_batches=3, lr=0.01)
        return {row.metric: row.value for row in measured}

    found = measure()
    assert found.pop("affine_change") > 0.005
    assert set(found.values()) == {0.0}

    monkeypatch.setattr(measurements.Tent, "reset", lambda self: None)
    assert measure()["reset_difference"] > 0


def test_a_depth_or_norm_that_does_not_exist():
    with pytest.raises(ValueError, match="depth: got 9, expected 6 n"):
        ResNet("batchnorm", 9, 8, 1)
    with pytest.raises(ValueError, match="norm: got 'layernorm', expected 'batchnorm'"):
        ResNet("layernorm", 8, 8, 1)


def test_the_net_of_the_paper_has_26_layers():
    net = ResNet("batchnorm", 26, 16, 3)
    layers = [
        name
        for name, module in net.named_modules()
        if isinstance(module, torch.nn.Conv2d | torch.nn.Linear) and "shortcut" not in name
    ]
    assert len(layers) == 26
    assert net(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


@pytest.mark.parametrize(
    ("measure", "said"),
    [
        (lambda run: corruptions(run, "tent", [], 20, 0.01), "kinds: got 0, expected 1 or more"),
        (lambda run: corruptions(run, "bn", KINDS, 20, 0.01, epochs=0), "epochs: got 0"),
        (lambda run: shifts(run, "tent", KINDS, (), 60, 20, 0.01), "severities: got 0"),
        (lambda run: unseen(run, "test", [], 20, 0.01), "kinds: got 0"),
        (lambda run: identities(run, "batchnorm", "fog", 20, 0, 0.01), "num_batches: got 0"),
        (lambda run: corruptions(run, "bn", KINDS, 0, 0.01), "got batch_size 0"),
        (lambda run: corruptions(run, "bn", KINDS, 9, 0.01, num_images=-1), "num_images -1"),
        (lambda run: corruptions(run, "bn", KINDS, 9, 0.01, order="sort"), "order 'sort'"),
    ],
)
def test_settings_that_cannot_be_are_one_clear_error(make_run, measure, said):
    with pytest.raises(RecordError, match=said):
        list(measure(make_run()))


def test_a_mode_that_counts_is_seen_by_the_identities(make_run, monkeypatch):
    monkeypatch.setattr(measurements.Tent, "_logits", lambda self, x_NCHW: self.model(x_NCHW))
    source = load_source(make_run(), "batchnorm")
    source.net.blocks.append(torch.nn.Dropout(0.5))
    monkeypatch.setattr(measurements, "load_source", lambda run, name: source)
    measured = identities(make_run(), "batchnorm", "fog", batch_size=20, num_batches=3, lr=0.01)
    assert {row.metric: row.value for row in measured}["eval_difference"] > 0
