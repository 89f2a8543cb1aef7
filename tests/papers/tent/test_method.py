"""The method against a second implementation, and each known mistake by name."""

from __future__ import annotations

import io
from functools import partial

import numpy as np
import pytest
import timm
import torch
from timm.layers.grn import GlobalResponseNorm
from torch import nn

from papers.tent.method import affine_of_norms, entropy, pseudo_label_loss, tent
from papers.tent.open_norms import normalise_by
from shared.norms import BatchNorm2d, InstanceNorm2d
from tests.papers.tent.second import SecondTent

NUM_BATCHES = 40


def small_net(norm=nn.BatchNorm2d, dtype=torch.float64):
    """A network as after training: nothing in its norms is at its initial value."""
    torch.manual_seed(1000)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 1, bias=False),
        norm(8),
        nn.ReLU(),
        nn.Conv2d(8, 12, 1, bias=False),
        norm(12),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(12, 5),
    ).to(dtype)
    with torch.no_grad():
        for module in net:
            if isinstance(module, nn.modules.batchnorm._BatchNorm | nn.GroupNorm):
                module.weight.uniform_(0.5, 1.5)
                module.bias.uniform_(-0.5, 0.5)
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.running_mean.normal_()
                module.running_var.uniform_(0.5, 2)
        net[8].weight.mul_(4)
    return net.eval()


def stream(num=NUM_BATCHES, dtype=torch.float64, batch_size=16):
    generator = torch.Generator().manual_seed(1000)
    shift = torch.tensor([0.5, -1.0, 2.0], dtype=dtype).view(1, 3, 1, 1)
    return [
        torch.randn(batch_size, 3, 4, 4, generator=generator, dtype=dtype) * (1 + index / 20)
        + shift
        for index in range(num)
    ]


def numpy_weights(net):
    names = {"conv1": "0.weight", "conv2": "3.weight", "linear": "8.weight", "bias": "8.bias"}
    for index, place in ((1, 1), (2, 4)):
        names |= {f"gamma{index}": f"{place}.weight", f"beta{index}": f"{place}.bias"}
        names |= {f"mean{index}": f"{place}.running_mean", f"var{index}": f"{place}.running_var"}
    state = net.state_dict()
    return {
        ours: state[theirs].numpy().reshape(state[theirs].shape[:2]).astype(np.float64)
        for ours, theirs in names.items()
    }


@pytest.mark.parametrize("statistics", ["batch", "source"])
@pytest.mark.parametrize("loss", [entropy, pseudo_label_loss])
def test_a_whole_stream_agrees_with_the_second_implementation(statistics, loss):
    net = small_net()
    ours = tent(net, lr=0.01, statistics=statistics, loss=loss)
    second = SecondTent(
        numpy_weights(net),
        0.01,
        frozen=statistics == "source",
        pseudo_label=loss is pseudo_label_loss,
    )
    for x_NCHW in stream():
        logits = ours(x_NCHW).numpy()
        np.testing.assert_allclose(logits, second(x_NCHW.flatten(2).numpy()), rtol=0, atol=1e-10)
    for index, place in ((1, 1), (2, 4)):
        for name, theirs in (("weight", f"gamma{index}"), ("bias", f"beta{index}")):
            adapted = getattr(ours.model[place], name).detach().numpy()
            np.testing.assert_allclose(adapted, second.w[theirs], rtol=0, atol=1e-10)
            assert np.abs(adapted - numpy_weights(net)[theirs]).max() > 0.05


def test_entropy_of_known_distributions():
    p = torch.tensor([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]], dtype=torch.float64)
    expected = (1.5 * np.log(2) + 0) / 2
    assert entropy((p + 1e-300).log()).item() == pytest.approx(expected, abs=1e-12)
    assert entropy(torch.tensor([[1e4, 0.0]])).item() == 0.0


def batch_norm_baseline(net):
    """The plain way: torch's own layers in training mode, on a copy."""
    baseline = small_net(type(net[1]), net[0].weight.dtype)
    baseline.load_state_dict(net.state_dict())
    return baseline.train()


def test_a_rate_of_zero_is_the_batch_norm_baseline_bit_for_bit():
    net = small_net(BatchNorm2d, torch.float32)
    baseline, adapting = batch_norm_baseline(net), tent(net, lr=0.0)
    for x_NCHW in stream(5, torch.float32):
        assert torch.equal(adapting(x_NCHW), baseline(x_NCHW).detach())


def test_the_first_batch_is_that_of_the_baseline_and_the_second_is_not():
    net = small_net(BatchNorm2d, torch.float32)
    baseline, adapting = batch_norm_baseline(net), tent(net)
    first, second = stream(2, torch.float32)
    assert torch.equal(adapting(first), baseline(first).detach())
    assert not torch.equal(adapting(second), baseline(second).detach())


def test_mistake_eval_silently_reverts_to_the_running_statistics():
    net = small_net()
    x_NCHW = stream(1)[0]
    adapting = tent(net, lr=0.0)
    expected = adapting(x_NCHW)
    assert (expected - net(x_NCHW)).abs().max() > 0.1  # the running statistics are others
    adapting.eval()
    for module in adapting.modules():
        module.eval()
    assert torch.equal(adapting(x_NCHW), expected)


def test_mistake_train_on_the_inside_brings_dropout_and_running_statistics_back():
    net = nn.Sequential(nn.BatchNorm2d(3), nn.Dropout(0.9), nn.Flatten(), nn.Linear(48, 5)).eval()
    for statistics in ("batch", "source"):
        adapting = tent(net, lr=0.0, statistics=statistics)
        x_NCHW = stream(1, torch.float32)[0]
        expected = adapting(x_NCHW)
        for layers in (adapting.modules(), [adapting.model]):
            for layer in layers:
                layer.train()
            assert torch.equal(adapting.predict(x_NCHW), expected)
            for layer in layers:
                layer.train()
            assert torch.equal(adapting(x_NCHW), expected)
        assert torch.equal(adapting.model[0].running_mean, net[0].running_mean)


def test_mistake_training_mode_switches_dropout_on():
    net = nn.Sequential(nn.BatchNorm2d(3), nn.Dropout(0.9), nn.Flatten(), nn.Linear(48, 5))
    adapting = tent(net, lr=0.0).train()
    x_NCHW = stream(1, torch.float32)[0]
    assert torch.equal(adapting(x_NCHW), adapting(x_NCHW))
    assert net.training  # the model of the user stays as it was


def test_mistake_affine_updates_with_the_statistics_of_the_source():
    x_NCHW = stream(1)[0]
    net = small_net()
    source = tent(net, statistics="source")
    torch.testing.assert_close(source(x_NCHW), net(x_NCHW).detach(), rtol=0, atol=1e-12)
    assert (tent(net)(x_NCHW) - net(x_NCHW)).abs().max() > 0.1


def test_mistake_no_reset_makes_it_continual():
    adapting = tent(small_net(), lr=0.01)
    batches = stream(6)
    first = [adapting(x) for x in batches]
    continual = [adapting(x) for x in batches]
    assert not torch.equal(first[0], continual[0])
    adapting.reset()
    again = [adapting(x) for x in batches]
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


@pytest.mark.parametrize("kind", ["adam", "momentum"])
def test_mistake_a_reset_forgets_the_optimiser(kind):
    """With the weights alone restored, moments of the old stream would move the first step."""
    make = {
        "adam": partial(torch.optim.Adam, lr=0.01),
        "momentum": partial(torch.optim.SGD, lr=0.1, momentum=0.9),
    }[kind]
    adapting = tent(small_net(), make_optimiser=make)
    batches = stream(4)
    for x_NCHW in batches:
        adapting(x_NCHW)
    assert adapting.optimiser.state
    adapting.reset()
    assert not adapting.optimiser.state
    reference = tent(small_net(), make_optimiser=make)
    for x_NCHW in batches:
        assert torch.equal(adapting(x_NCHW), reference(x_NCHW))


def test_mistake_a_reset_is_used_up_by_the_next_stream():
    adapting = tent(small_net(), lr=0.01)
    batches = stream(3)
    first = [adapting(x) for x in batches]
    for _ in range(2):
        adapting.reset()
        assert all(
            torch.equal(a, b) for a, b in zip(first, [adapting(x) for x in batches], strict=True)
        )


def test_mistake_the_last_batch_is_small():
    adapting = tent(small_net())
    assert adapting(stream(1, batch_size=1)[0]).isfinite().all()
    assert adapting(stream(1, batch_size=16)[0]).shape == (16, 5)


@pytest.mark.parametrize(
    ("norm", "count"),
    [
        (nn.BatchNorm2d, 4),
        (BatchNorm2d, 4),
        (partial(nn.GroupNorm, 4), 4),
        (lambda c: nn.LayerNorm([c, 4, 4]), 4),
        (partial(nn.InstanceNorm2d, affine=True), 4),
        (lambda c: nn.RMSNorm([c, 4, 4]), 2),
        (timm.layers.RmsNorm2d, 2),
        (timm.layers.RmsNormAct2dFp32, 2),
        (timm.layers.SimpleNorm2dFp32, 2),
    ],
    ids=["torch", "ours", "group", "layer", "instance", "rms", "timm", "act", "simple"],
)
def test_mistake_only_batchnorm2d_is_seen(norm, count):
    net = small_net(norm)
    adapting = tent(net, lr=0.01)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    for x_NCHW in stream(3):
        adapting(x_NCHW)
    after = adapting.model.state_dict()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    expected = {f"{i}.{name}" for i in (1, 4) for name in ("weight", "bias")}
    assert moved == {name for name in expected if name in before}
    assert len(moved) == len(adapting.adapted) == count
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())


def test_mistake_batchnorm1d_uses_the_batch_but_does_not_adapt():
    net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))
    adapting = tent(net)
    adapting(torch.randn(8, 4))
    assert not torch.equal(adapting.model[1].weight, net[1].weight)
    assert torch.equal(adapting.model[1].running_mean, net[1].running_mean)


def test_a_layer_that_stands_at_two_places_is_opened_at_both():
    shared = nn.BatchNorm2d(3)
    net = nn.Sequential(shared, nn.ReLU(), shared, nn.Flatten(), nn.Linear(48, 5)).eval()
    adapting = tent(net)
    assert adapting.model[0] is adapting.model[2]
    assert isinstance(adapting.model[0], BatchNorm2d)
    assert len(adapting.adapted) == 2


def test_nothing_to_adapt_is_a_clear_error():
    expected = "got Sequential without a parameter to adapt, expected a norm with a weight, or"
    with pytest.raises(ValueError, match=expected):
        tent(nn.Sequential(nn.Linear(4, 3)))
    with pytest.raises(ValueError, match=expected):
        tent(nn.Sequential(nn.BatchNorm1d(4, affine=False), nn.Linear(4, 3)))


def test_batch_norms_whose_statistics_cannot_be_chosen_are_clear_errors():
    class Own(nn.BatchNorm2d):
        pass

    with pytest.raises(ValueError, match="tent: 0: got Own, a norm with a forward of its"):
        tent(nn.Sequential(Own(3)))
    untracked = nn.Sequential(nn.BatchNorm2d(3, track_running_stats=False))
    with pytest.raises(ValueError, match="tent: 0: got a batch norm without running statistics"):
        tent(untracked, statistics="source")
    with pytest.raises(ValueError, match="expected 'batch' or 'source'"):
        normalise_by(small_net(), "none")


@pytest.mark.parametrize(
    "name", ["resnet18", "efficientnet_b0", "vit_tiny_patch16_224", "convnext_atto", "test_vit4"]
)
def test_models_of_timm(name):
    torch.manual_seed(1000)
    options = {"img_size": 32, "patch_size": 8} if "vit" in name else {}
    net = timm.create_model(name, num_classes=5, **options).eval()
    adapting = tent(net, lr=0.01)
    x_NCHW = torch.randn(4, 3, 32, 32)
    first = adapting(x_NCHW)
    assert first.shape == (4, 5)
    assert not torch.equal(adapting(x_NCHW), first)
    assert len(adapting.adapted) == len(affine_of_norms(net)) > 0
    assert adapting.model.state_dict().keys() == net.state_dict().keys()
    net.load_state_dict(adapting.model.state_dict())
    if "resnet" in name or "efficientnet" in name:
        plain = {k for k, v in tent(net, lr=0.0).model.named_buffers()}
        assert plain == {k for k, v in net.named_buffers()}


def test_a_state_dict_survives_a_round_trip_to_a_file():
    batches = stream(8)
    adapting = tent(small_net(), lr=0.01)
    for x_NCHW in batches[:4]:
        adapting(x_NCHW)
    file = io.BytesIO()
    torch.save(adapting.state_dict(), file)
    file.seek(0)
    other = tent(small_net(), lr=0.01)
    other.load_state_dict(torch.load(file, weights_only=True))
    for x_NCHW in batches[4:]:
        assert torch.equal(other(x_NCHW), adapting(x_NCHW))


def test_it_adapts_also_where_gradients_are_off():
    adapting, reference = tent(small_net(), lr=0.01), tent(small_net(), lr=0.01)
    batches = stream(3)
    expected = [reference(x) for x in batches]
    with torch.inference_mode():
        inside = [adapting(x + 0) for x in batches]
    assert all(torch.equal(a, b) for a, b in zip(expected, inside, strict=True))


def test_norms_that_stay_as_they_are_are_named():
    net = nn.Sequential(nn.LayerNorm(3), GlobalResponseNorm(3))
    with pytest.warns(UserWarning, match=r"tent: 1 \(GlobalResponseNorm\): none of the"):
        assert len(tent(net).adapted) == 2
    frozen = nn.Sequential(nn.LayerNorm(3), timm.layers.FrozenBatchNormAct2d(3))
    with pytest.warns(UserWarning, match=r"1 \(FrozenBatchNormAct2d\)"):
        tent(frozen)
    assert len(tent(net, select=lambda m: list(m.parameters())).adapted) == 4


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_mistake_sixteen_bits_lose_the_steps(dtype):
    said = f"got a parameter of {dtype} to adapt, expected torch.float32 or torch.float64"
    with pytest.raises(TypeError, match=said):
        tent(small_net(dtype=dtype))
    adapting = tent(small_net(dtype=torch.float32))
    adapting(stream(1, torch.float32)[0])
    with pytest.raises(TypeError, match=said):
        adapting.to(dtype)


def test_another_precision_after_a_step_goes_on_with_the_state_of_the_optimiser():
    first, *rest = stream(4)
    single, double = tent(small_net().float(), lr=0.01), tent(small_net(), lr=0.01)
    single(first.float())
    double(first)
    single.double()
    for x_NCHW in rest:
        torch.testing.assert_close(single(x_NCHW), double(x_NCHW), rtol=0, atol=1e-5)
    single.reset()
    torch.testing.assert_close(single(first), tent(small_net())(first).detach(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("loss", [entropy, pseudo_label_loss])
def test_mistake_a_masked_class_makes_all_parameters_nan(loss):
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = small_net()

        def forward(self, x_NCHW):
            mask = torch.tensor([0, 0, -torch.inf, 0, 0], dtype=x_NCHW.dtype)
            return self.net(x_NCHW) + mask

    adapting = tent(Masked(), lr=0.01, loss=loss)
    for x_NCHW in stream(3):
        assert adapting(x_NCHW).isneginf().sum() == 16
    assert all(p.isfinite().all() for p in adapting.adapted)
    kept = [0, 1, 3, 4]
    logits_NC = adapting.predict(x_NCHW)
    torch.testing.assert_close(entropy(logits_NC), entropy(logits_NC[:, kept]))


def test_mistake_a_loss_or_gradient_that_is_not_finite_is_stepped_on():
    x_NCHW = stream(1)[0]
    # exp(-1e4) is 0: the loss is finite, and the gradient of log at 0 is not.
    head = nn.Sequential(small_net(), LogOfSoftmax())
    for net, bad in ((small_net(), x_NCHW * torch.nan), (head, x_NCHW)):
        adapting = tent(net, lr=0.01)
        before = [p.clone() for p in adapting.adapted]
        with pytest.raises(FloatingPointError, match=r"not finite.*no step was made"):
            adapting(bad)
        assert all(torch.equal(a, b) for a, b in zip(before, adapting.adapted, strict=True))
    assert small_net()(x_NCHW).isfinite().all()


class LogOfSoftmax(nn.Module):
    def forward(self, logits_NC):
        return (logits_NC * 1e6).softmax(dim=1).log()


@pytest.mark.parametrize("norm", [nn.InstanceNorm2d, InstanceNorm2d])
def test_instance_norms_use_each_instance_or_the_running_statistics(norm):
    layer = norm(3, affine=True, track_running_stats=True)
    net = nn.Sequential(layer, nn.Flatten(), nn.Linear(48, 5)).double()
    x_NCHW = stream(1)[0]
    net.train()(x_NCHW)
    net.eval()
    batch, source = tent(net), tent(net, statistics="source")
    torch.testing.assert_close(source(x_NCHW), net(x_NCHW).detach())
    own = net[2](nn.functional.instance_norm(x_NCHW).flatten(1)).detach()
    torch.testing.assert_close(batch(x_NCHW), own)
    for adapting in (batch, source):
        assert len(adapting.adapted) == 2
        assert adapting.model.state_dict().keys() == net.state_dict().keys()
        assert torch.equal(adapting.model[0].running_mean, net[0].running_mean)


def test_an_instance_norm_with_a_forward_of_its_own_is_a_clear_error():
    class Own(nn.InstanceNorm2d):
        pass

    net = nn.Sequential(Own(3, affine=True, track_running_stats=True))
    with pytest.raises(ValueError, match="tent: 0: got Own, a norm with a forward of its own"):
        tent(net)


class Returns(nn.Module):
    """A model whose output is changed."""

    def __init__(self, change):
        super().__init__()
        self.net = small_net()
        self.change = change

    def forward(self, x_NCHW):
        return self.change(self.net(x_NCHW))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (torch.Tensor.detach, "got a loss without a gradient, expected one that depends on"),
        (lambda y: {"logits": y}, "got dict from the model, expected a tensor of logits"),
        (lambda y: y[:, :1], r"got logits of shape \(16, 1\), expected \(N, C\) with 2 classes"),
        (lambda y: y[:, 0], r"got logits of shape \(16,\), expected \(N, C\) with 2 classes"),
    ],
)
@pytest.mark.parametrize("loss", [entropy, pseudo_label_loss])
def test_models_that_cannot_adapt_are_clear_errors(change, said, loss):
    adapting = tent(Returns(change), loss=loss)
    with pytest.raises((ValueError, TypeError), match=said):
        adapting(stream(1)[0])


def test_a_model_under_no_grad_is_a_clear_error():
    adapting = tent(Returns(nn.Identity()))
    adapting.model.forward = torch.no_grad()(adapting.model.forward)
    with pytest.raises(ValueError, match="got a loss without a gradient"):
        adapting(stream(1)[0])


def test_a_model_that_adapts_already_is_a_clear_error():
    for net in (tent(small_net()), nn.Sequential(tent(small_net()))):
        with pytest.raises(TypeError, match="got a Tent, expected a model that does not adapt yet"):
            tent(net)


def test_a_selection_that_is_none_is_a_clear_error():
    net = small_net()
    for nothing in (None, [], ()):
        with pytest.raises(ValueError, match="expected a norm with a weight, or a `select`"):
            tent(net, select=lambda model, given=nothing: given)
    for foreign in (
        lambda model: list(net.parameters()),
        lambda model: list(model.named_parameters()),
        lambda model: ["1.weight"],
    ):
        with pytest.raises(ValueError, match="select: got something else than parameters of the"):
            tent(net, select=foreign)
    assert len(tent(net, select=lambda model: model.parameters()).adapted) == 8


def test_mistake_a_shared_weight_is_stepped_twice():
    net = small_net()
    net[4] = nn.BatchNorm2d(8).double().eval()
    net[3] = nn.Conv2d(8, 8, 1, bias=False).double()
    net[8] = nn.Linear(8, 5).double()
    net[4].weight, net[4].bias = net[1].weight, net[1].bias
    adapting = tent(net, lr=0.01)
    assert len(adapting.adapted) == 2
    adapting(stream(1)[0])
    assert adapting.model[1].weight is adapting.model[4].weight
    # The first step of Adam is the learning rate.
    change = (adapting.model[1].weight - net[1].weight).abs()
    torch.testing.assert_close(change, torch.full_like(change, 0.01), rtol=0, atol=1e-5)


def test_mistake_hooks_of_norms_are_lost():
    seen = []
    net = nn.Sequential(
        nn.BatchNorm2d(3),
        nn.InstanceNorm2d(3, track_running_stats=True),
        timm.layers.BatchNormAct2d(3),
        nn.Flatten(),
        nn.Linear(48, 5),
    ).eval()
    for layer in net[:3]:
        layer.register_forward_hook(lambda module, inputs, y: seen.append(type(module)))
        layer.register_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,))
    tent(net).predict(torch.randn(4, 3, 4, 4))
    assert len(seen) == 3


def test_two_models_of_one_state_go_on_apart():
    batches = stream(4)
    first, second, reference = (tent(small_net(), lr=0.01) for _ in range(3))
    for adapting in (first, reference):
        adapting(batches[0])
    second.load_state_dict(first.state_dict())
    for x_NCHW in batches[1:]:
        assert torch.equal(first(x_NCHW), reference(x_NCHW))
    reference.reset()
    reference(batches[0])
    for x_NCHW in batches[1:]:
        assert torch.equal(second(x_NCHW), reference(x_NCHW))
