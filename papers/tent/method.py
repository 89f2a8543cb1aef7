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
import math
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import get_total_norm

from papers.tent.open_norms import normalise_by
from shared.norms.replace import is_norm, is_unknown_norm

Loss = Callable[[Tensor], Tensor]
Selection = Callable[[nn.Module], list[nn.Parameter]]
MakeOptimiser = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]


def entropy(logits_NC: Tensor) -> Tensor:
    """Mean entropy of the predicted distributions, in nats.

    H = -1/N sum_n sum_c p_nc log p_nc,   p = softmax(logits)

    A class that is masked by a logit of -inf adds nothing.

    Raises:
        ValueError: fewer than two classes.

    Source: equation of section 3.1 of the paper.

    Example:
        >>> round(entropy(torch.zeros(3, 10)).item(), 4)  # ln 10
        2.3026
    """
    log_p_NC = _of_classes(logits_NC).log_softmax(dim=1)
    lowest = torch.finfo(log_p_NC.dtype).min  # 0 times it is 0, and 0 times -inf is not a number
    return -(log_p_NC.exp() * log_p_NC.clamp_min(lowest)).sum(dim=1).mean()


def pseudo_label_loss(logits_NC: Tensor) -> Tensor:
    """Cross-entropy to the model's own most likely class: the baseline `PL` of the paper."""
    logits_NC = _of_classes(logits_NC)
    return cross_entropy(logits_NC, logits_NC.detach().argmax(dim=1))


def _of_classes(logits_NC: Tensor) -> Tensor:
    if logits_NC.dim() < 2 or logits_NC.shape[1] < 2:
        raise ValueError(
            f"tent: got logits of shape {tuple(logits_NC.shape)}, expected (N, C) with 2 classes "
            "or more: a single one is always certain. For one logit z of two classes let the "
            "model return torch.cat([z, 0 * z], dim=1)"
        )
    return logits_NC


def affine_of_norms(model: nn.Module) -> list[nn.Parameter]:
    """Weight and bias of every norm layer that `shared.norms.replace_norms` knows."""
    return [
        parameter
        for module in model.modules()
        if is_norm(module)
        for parameter in module.parameters(recurse=False)
    ]


class Tent(nn.Module):
    """A model that adapts to what it is tested on. Made by `tent`, which says all else.

    Every forward is made in evaluation mode, whatever was called before: no dropout, and running
    statistics stay as they are. `to()` moves and converts the state of the optimiser, too.

    Attributes:
        model: the adapting copy. Its `state_dict()` fits the model that it was made of.
        adapted: the parameters that are changed.
        optimiser: that changes them.
    """

    def __init__(
        self, model: nn.Module, adapted: list[nn.Parameter], make: MakeOptimiser, loss: Loss
    ) -> None:
        super().__init__()
        _check_precision(adapted)
        self.model = model.eval()
        self.adapted = adapted
        self.loss = loss
        model.requires_grad_(False)
        for parameter in adapted:
            parameter.requires_grad_(True)
        self.optimiser = make(adapted)
        self._start = copy.deepcopy((model.state_dict(), self.optimiser.state_dict()))

    def forward(self, images_NCHW: Tensor) -> Tensor:
        """Logits from before the step that these images cause.

        Raises:
            FloatingPointError: the loss or a gradient is not finite; the step was not made.
            ValueError: the loss does not depend on what adapts, or is one of a single class.
            TypeError: the model gives no tensor.
        """
        with torch.inference_mode(False), torch.enable_grad():
            if images_NCHW.is_inference():
                images_NCHW = images_NCHW.clone()
            logits_NC = self._logits(images_NCHW)
            loss = self.loss(logits_NC)
            if not loss.requires_grad:
                raise ValueError(
                    "tent: got a loss without a gradient, expected one that depends on the adapted "
                    "parameters: take torch.no_grad() and detach() out of the model's forward, or "
                    "`select` parameters that it uses"
                )
            self.optimiser.zero_grad()
            loss.backward()
            gradients = [p.grad for p in self.adapted if p.grad is not None]
            if not (loss.isfinite() and get_total_norm(gradients, math.inf).isfinite()):
                raise FloatingPointError(
                    f"tent: got a loss of {loss.item()}, or a gradient, that is not finite, "
                    "expected numbers: no step was made. Look at the images, or only predict()"
                )
            self.optimiser.step()
        return logits_NC.detach()

    @torch.no_grad()
    def predict(self, images_NCHW: Tensor) -> Tensor:
        """Logits of the model as it is now; nothing adapts."""
        return self._logits(images_NCHW)

    def _logits(self, images_NCHW: Tensor) -> Tensor:
        self.model.eval()  # a train() or eval() of any layer does not count
        logits_NC = self.model(images_NCHW)
        if not isinstance(logits_NC, Tensor):
            raise TypeError(
                f"tent: got {type(logits_NC).__name__} from the model, expected a tensor of logits "
                "(N, C): wrap the model in one that returns them alone"
            )
        return logits_NC

    def reset(self) -> None:
        """Back to the start, the state of the optimiser included."""
        weights, optimiser = copy.deepcopy(self._start)
        self.model.load_state_dict(weights)
        self.optimiser.load_state_dict(optimiser)

    def train(self, mode: bool = True) -> Self:
        """Only sets the flag: the model adapts in either mode, and its layers stay in `eval`."""
        self.training = mode
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        _check_precision(self.adapted)
        # Loading is what gives the optimiser's state the type and device of its parameters.
        self.optimiser.load_state_dict(self.optimiser.state_dict())
        return self

    def get_extra_state(self) -> Any:
        return self.optimiser.state_dict()

    def set_extra_state(self, state: Any) -> None:
        # A copy: an optimiser keeps the very tensors that it is given.
        self.optimiser.load_state_dict(copy.deepcopy(state))


def _check_precision(adapted: list[nn.Parameter]) -> None:
    for parameter in adapted:
        if parameter.dtype not in (torch.float32, torch.float64):
            raise TypeError(
                f"tent: got a parameter of {parameter.dtype} to adapt, expected torch.float32 or "
                "torch.float64: 16 bits round its steps away or overflow. Use model.float(), and "
                "torch.autocast where speed matters"
            )


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
        model: a torch or timm model with batch, layer, RMS, group or instance norm, in float32 or
            float64, on the device where it will run. It gives logits (N, C). Layers that are called
            a norm and are none of these, e.g. GlobalResponseNorm, stay as they are, with a warning.
        lr: learning rate of the optimiser, which is Adam.
        statistics: what batch norms normalise by, and instance norms that have running statistics:
            each test `batch` (or instance), or the running statistics of the `source`. The other
            norms have none that could change.
        select: the parameters to adapt, of the copy that it is called with.
        loss: of the logits; the entropy.
        make_optimiser: another optimiser: parameters -> optimiser. `lr` is then not used.

    Raises:
        ValueError: nothing to adapt (other parameters than those of norms: `select`), or a norm
            whose statistics cannot be chosen.
        TypeError: a model that already adapts, or parameters of 16 bits.

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
        ValueError: tent: got Linear without a parameter to adapt, expected a norm with a weight, \
or a `select` that gives others
    """
    if any(isinstance(module, Tent) for module in model.modules()):
        raise TypeError(
            "tent: got a Tent, expected a model that does not adapt yet: use it as it is, or give "
            "its `model`"
        )
    adapting = normalise_by(copy.deepcopy(model), statistics)
    # A parameter that two layers share gets one step.
    adapted = list(dict.fromkeys(select(adapting) or ()))
    if not adapted:
        raise ValueError(
            f"tent: got {type(model).__name__} without a parameter to adapt, "
            "expected a norm with a weight, or a `select` that gives others"
        )
    if not set(adapted) <= set(adapting.parameters()):
        raise ValueError(
            "tent: select: got something else than parameters of the model that it was called "
            "with, which is a copy; expected of its .parameters()"
        )
    _warn_of_what_stays(adapting, set(adapted))
    return Tent(adapting, adapted, make_optimiser or partial(torch.optim.Adam, lr=lr), loss)


def _warn_of_what_stays(model: nn.Module, adapted: set[Tensor]) -> None:
    left = [
        f"{path} ({type(module).__name__})"
        for path, module in model.named_modules()
        if is_unknown_norm(module)
        and {*module.parameters(recurse=False), *module.buffers(recurse=False)} - adapted
    ]
    if left:
        warnings.warn(
            f"tent: {', '.join(left)}: none of the norms known here, so they stay as they are. "
            "`select` can adapt their parameters",
            stacklevel=3,
        )
