"""Tent: fully test-time adaptation by entropy minimisation (section 3 of the paper).

Of every batch of test images the network predicts the classes, and then takes one step that makes
its own predictions less uncertain:

    H(p) = -sum_c p_c log p_c        gamma, beta <- optimiser step on mean_n H(p_n)

Two parts of each norm layer adapt. Its statistics: those of the test batch replace those of the
training. Its affine parameters gamma and beta: they follow the gradient. All else is fixed.

    model = tent(my_model)                 # a copy; my_model stays as it is
    logits_NC = model(images_NCHW)         # predicts, then adapts
    model.reset()                          # before the next, unrelated stream of images

Legend: N samples, C classes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from papers.tent.open_norms import normalise_by

NORMS = (
    nn.modules.batchnorm._BatchNorm,
    nn.modules.instancenorm._InstanceNorm,
    nn.GroupNorm,
    nn.LayerNorm,
    nn.RMSNorm,
)

Loss = Callable[[Tensor], Tensor]
Selection = Callable[[nn.Module], list[nn.Parameter]]
MakeOptimiser = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]


def entropy(logits_NC: Tensor) -> Tensor:
    """Mean entropy of the predicted distributions, in nats.

    H = -1/N sum_n sum_c p_nc log p_nc,   p = softmax(logits)

    Source: equation of section 3.1 of the paper.

    Example:
        >>> round(entropy(torch.zeros(3, 10)).item(), 4)  # ln 10
        2.3026
    """
    log_p_NC = logits_NC.log_softmax(dim=1)
    return -(log_p_NC.exp() * log_p_NC).sum(dim=1).mean()


def pseudo_label_loss(logits_NC: Tensor) -> Tensor:
    """Cross-entropy to the model's own most likely class: the baseline `PL` of the paper."""
    return cross_entropy(logits_NC, logits_NC.detach().argmax(dim=1))


def affine_of_norms(model: nn.Module) -> list[nn.Parameter]:
    """Weight and bias of every norm layer of torch or derived from one, timm's included."""
    return [
        parameter
        for module in model.modules()
        if isinstance(module, NORMS)
        for parameter in module.parameters(recurse=False)
    ]


class Tent(nn.Module):
    """A model that adapts to what it is tested on. Made by `tent`, which says all else.

    Attributes:
        model: the adapting copy, always in evaluation mode: no dropout, and running statistics
            stay as they are. Its `state_dict()` fits the model that it was made of.
        adapted: the parameters that are changed.
        optimiser: that changes them.
    """

    def __init__(
        self, model: nn.Module, adapted: list[nn.Parameter], make: MakeOptimiser, loss: Loss
    ) -> None:
        super().__init__()
        self.model = model.eval()
        self.adapted = adapted
        self.loss = loss
        model.requires_grad_(False)
        for parameter in adapted:
            parameter.requires_grad_(True)
        self.optimiser = make(adapted)
        self._start = copy.deepcopy((model.state_dict(), self.optimiser.state_dict()))

    def forward(self, images_NCHW: Tensor) -> Tensor:
        """Logits from before the step that these images cause."""
        with torch.inference_mode(False), torch.enable_grad():
            if images_NCHW.is_inference():
                images_NCHW = images_NCHW.clone()
            logits_NC = self.model(images_NCHW)
            self.optimiser.zero_grad()
            self.loss(logits_NC).backward()
            self.optimiser.step()
        return logits_NC.detach()

    @torch.no_grad()
    def predict(self, images_NCHW: Tensor) -> Tensor:
        """Logits of the model as it is now; nothing adapts."""
        return self.model(images_NCHW)

    def reset(self) -> None:
        """Back to the start, the state of the optimiser included."""
        weights, optimiser = copy.deepcopy(self._start)
        self.model.load_state_dict(weights)
        self.optimiser.load_state_dict(optimiser)

    def train(self, mode: bool = True) -> Self:
        """Only sets the flag: the model adapts in either mode, and its layers stay in `eval`."""
        self.training = mode
        return self

    def get_extra_state(self) -> Any:
        return self.optimiser.state_dict()

    def set_extra_state(self, state: Any) -> None:
        self.optimiser.load_state_dict(state)


def tent(
    model: nn.Module,
    *,
    lr: float = 1e-3,
    statistics: Literal["batch", "source"] = "batch",
    select: Selection = affine_of_norms,
    loss: Loss = entropy,
    make_optimiser: MakeOptimiser | None = None,
) -> Tent:
    """A copy of a trained classifier that adapts to its test images.

    Args:
        model: any torch or timm model with batch, layer, group or instance norm, on the device
            where it will run. It gives logits (N, C).
        lr: learning rate of the optimiser, which is Adam.
        statistics: what batch norms normalise by: each test `batch`, or the running statistics of
            the `source`. The other norms have none that could change.
        select: the parameters to adapt.
        loss: of the logits; the entropy.
        make_optimiser: another optimiser: parameters -> optimiser. `lr` is then not used.

    Raises:
        ValueError: nothing to adapt (other parameters than those of norms: `select`), or a batch
            norm whose statistics cannot be chosen.

    Source: section 3 and algorithm 1 of the paper. Deviates from the public code: layers are in
    evaluation mode, so that dropout stays off; all norms adapt, not only BatchNorm2d; one step a
    batch, and no option for more.

    Example:
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
        >>> adapting = tent(net)
        >>> logits_NC = adapting(torch.randn(16, 4))
        >>> [name for name, p in adapting.model.named_parameters() if p.requires_grad]
        ['1.weight', '1.bias']
        >>> tent(nn.Linear(4, 3))
        Traceback (most recent call last):
        ValueError: tent: got Linear without a parameter to adapt, expected a norm with a weight
    """
    adapting = copy.deepcopy(model)
    adapting = normalise_by(adapting, statistics)
    adapted = select(adapting)
    if not adapted:
        raise ValueError(
            f"tent: got {type(model).__name__} without a parameter to adapt, "
            "expected a norm with a weight"
        )
    return Tent(adapting, adapted, make_optimiser or partial(torch.optim.Adam, lr=lr), loss)
