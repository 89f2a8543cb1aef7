"""Feature matching and the perceptual loss, and what is said where its weights are not there."""

from __future__ import annotations

import pytest
import torch
from torchvision.models.vgg import cfgs, make_layers

from papers.spade import losses
from papers.spade.losses import PerceptualLoss, feature_matching
from shared.records.base import RecordError, sha256_of


def test_feature_matching_leaves_the_scores_out_and_the_real_features_constant():
    fake = [[torch.randn(2, 3, 4, 4, requires_grad=True), torch.zeros(2, 1, 3, 3)] for _ in "ab"]
    real = [[torch.randn(2, 3, 4, 4, requires_grad=True), torch.ones(2, 1, 3, 3)] for _ in "ab"]
    loss = feature_matching(fake, real)
    by_hand = sum((f[0] - r[0]).abs().mean() for f, r in zip(fake, real, strict=True)) / 2
    torch.testing.assert_close(loss, by_hand)
    loss.backward()
    assert fake[0][0].grad is not None
    assert real[0][0].grad is None


@pytest.fixture(scope="module")
def vgg(tmp_path_factory):
    """A file named as torchvision's, with random weights, and the layers that have them."""
    torch.manual_seed(0)
    layers = make_layers(cfgs["E"])
    weights = {f"features.{name}": weight for name, weight in layers.state_dict().items()}
    file = tmp_path_factory.mktemp("vgg") / "vgg19.pth"
    torch.save(weights | {"classifier.0.bias": torch.zeros(3)}, file)
    return file, layers


def test_the_perceptual_loss_is_that_of_five_layers(vgg, monkeypatch):
    file, layers = vgg
    monkeypatch.setattr(losses, "VGG_SHA256", sha256_of(file)[:8])
    monkeypatch.setenv(losses.VGG_VARIABLE, str(file))
    loss = PerceptualLoss()
    fake, real = torch.rand(2, 1, 3, 32, 32) * 2 - 1
    fake.requires_grad_()
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    x, y = (((i + 1) / 2 - mean[:, None, None]) / std[:, None, None] for i in (fake, real))
    expected, relus = 0, 0
    for index, layer in enumerate(layers[:30]):
        x, y = layer(x.clone()), layer(y.clone())
        if isinstance(layer, torch.nn.ReLU):
            relus += 1
            if index in (1, 6, 11, 20, 29):  # the first ReLU of each of the five blocks
                weight = {1: 1 / 32, 6: 1 / 16, 11: 1 / 8, 20: 1 / 4, 29: 1}[index]
                expected = expected + weight * (x - y).abs().mean()
    got = loss(fake, real)
    torch.testing.assert_close(got, expected)
    got.backward()
    assert fake.grad.abs().sum() > 0
    assert not any(p.requires_grad for p in loss.parameters())


def test_missing_and_other_weights_are_refused(vgg, tmp_path, monkeypatch):
    monkeypatch.delenv(losses.VGG_VARIABLE, raising=False)
    with pytest.raises(RecordError, match=r"vgg19-dcbb9e9d.pth and set RENORM_VGG19"):
        PerceptualLoss()
    monkeypatch.setenv(losses.VGG_VARIABLE, str(tmp_path / "none.pth"))
    with pytest.raises(RecordError, match="no such file"):
        PerceptualLoss()
    with pytest.raises(RecordError, match="expected dcbb9e9d"):
        PerceptualLoss(vgg[0])
