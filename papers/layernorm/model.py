"""The networks: an MLP (Figure 6), a GRU that reads an image row by row, a small conv net.

Every arm of a comparison has the same weights at the start, drawn in the same order, since norms
and biases start as constants. Normalized layers have no bias of their own before the norm, as in
the paper's equations: the norm's comes after it. Layers without a norm have theirs in its place.

Legend: N examples, C channels, H and W image, F features, T time steps, K classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from shared.norms import BatchNorm1d, BatchNorm2d, GroupNorm, LayerNorm

Norm = Literal["none", "layernorm", "batchnorm"]


class Bias(nn.Module):
    """y = x + b with one number a feature, which starts at 0: what a layer without norm has.

    Args:
        num_features: F.
        positions: dimensions of x after its features: 0 for (..., F), 2 for (N, F, H, W).
    """

    def __init__(self, num_features: int, positions: int = 0) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(num_features, *[1] * positions))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.bias


class MLP(nn.Sequential):
    """Layers of (linear, norm, ReLU) and a linear classifier, for any order of the pixels.

    Args:
        norm: of the hidden layers.
        widths: units of the hidden layers; the paper has 1,000 and 1,000.
        norm_logits: also normalise what goes into the softmax, with `norm`.

    Shape: (N, C, H, W) with C H W = `num_inputs` -> (N, K).

    Source: Ba, Kiros, Hinton (2016), arXiv 1607.06450, section 6.6.
    """

    def __init__(
        self,
        norm: Norm,
        widths: Sequence[int],
        norm_logits: bool = False,
        num_inputs: int = 784,
        num_classes: int = 10,
    ) -> None:
        norms = {"none": Bias, "layernorm": LayerNorm, "batchnorm": BatchNorm1d}
        layers: list[nn.Module] = [nn.Flatten()]
        for before, after in zip((num_inputs, *widths), widths, strict=False):
            layers += [nn.Linear(before, after, bias=False), norms[norm](after), nn.ReLU()]
        last = norms[norm] if norm_logits else Bias
        layers += [nn.Linear(widths[-1], num_classes, bias=False), last(num_classes)]
        super().__init__(*layers)


class GRUCell(nn.Module):
    """A gated recurrent unit whose four summed inputs are normalised, each on its own.

        [z, r] = sigmoid(norm(x W_x^T) + norm(h W_h^T))        the two gates in one norm
        n = tanh(norm(x U_x^T) + r * norm(h U_h^T))
        h' = (1 - z) * h + z * n

    Without norms, a bias in the place of each, this is the GRU of torch with 1 - z for z.

    Args:
        norm: `layernorm`, or `none`; batch norm would need statistics for each time step.

    Source: Ba, Kiros, Hinton (2016), arXiv 1607.06450, supplementary material; after Cho et al.
    (2014), arXiv 1406.1078.
    """

    def __init__(self, norm: Literal["none", "layernorm"], num_inputs: int, width: int) -> None:
        super().__init__()
        kind = {"none": Bias, "layernorm": LayerNorm}[norm]
        self.width = width
        self.input_gates = nn.Linear(num_inputs, 2 * width, bias=False)
        self.input_new = nn.Linear(num_inputs, width, bias=False)
        self.hidden_gates = nn.Linear(width, 2 * width, bias=False)
        self.hidden_new = nn.Linear(width, width, bias=False)
        for block in (*self.hidden_gates.weight.chunk(2), self.hidden_new.weight):
            nn.init.orthogonal_(block)
        self.norm_input_gates, self.norm_hidden_gates = kind(2 * width), kind(2 * width)
        self.norm_input_new, self.norm_hidden_new = kind(width), kind(width)

    def read(self, x_TNF: Tensor) -> tuple[Tensor, Tensor]:
        """What the inputs send to the gates and to n: all time steps at once, none needs h."""
        gates_TNF = self.norm_input_gates(self.input_gates(x_TNF))
        return gates_TNF, self.norm_input_new(self.input_new(x_TNF))

    def forward(self, gates_NF: Tensor, new_NF: Tensor, h_NF: Tensor) -> Tensor:
        """One time step, from what `read` gave for it."""
        hidden_gates_NF = self.norm_hidden_gates(self.hidden_gates(h_NF))
        z_NF, r_NF = torch.sigmoid(gates_NF + hidden_gates_NF).chunk(2, dim=1)
        n_NF = torch.tanh(new_NF + r_NF * self.norm_hidden_new(self.hidden_new(h_NF)))
        return torch.lerp(h_NF, n_NF, z_NF)


class RowGRU(nn.Module):
    """Reads an image row by row, from the top, and classifies it from the last state.

    Shape: (N, 1, H, W) -> (N, K); H time steps of W inputs.
    """

    def __init__(
        self,
        norm: Literal["none", "layernorm"],
        width: int,
        row_length: int = 28,
        num_classes: int = 10,
    ) -> None:
        super().__init__()
        self.cell = GRUCell(norm, row_length, width)
        self.classifier = nn.Linear(width, num_classes)

    def forward(self, x_NCHW: Tensor) -> Tensor:
        gates_TNF, new_TNF = self.cell.read(x_NCHW[:, 0].transpose(0, 1))
        h_NF = x_NCHW.new_zeros(len(x_NCHW), self.cell.width)
        for gates_NF, new_NF in zip(gates_TNF, new_TNF, strict=True):
            h_NF = self.cell(gates_NF, new_NF, h_NF)
        return self.classifier(h_NF)


class ConvNet(nn.Sequential):
    """3x3 convolutions of stride 2, each with norm and ReLU, and a linear classifier on all units.

    Layer norm takes its statistics from all units of a layer, channels and positions together; gain
    and bias are shared by the positions of a channel, as the weights are.

    Shape: (N, C, H, W) -> (N, K).

    Source: Ba, Kiros, Hinton (2016), arXiv 1607.06450, section 6.7, which gives no
    network.
    """

    def __init__(
        self,
        norm: Norm,
        widths: Sequence[int],
        in_channels: int = 1,
        image_size: int = 28,
        num_classes: int = 10,
    ) -> None:
        layers: list[nn.Module] = []
        for before, after in zip((in_channels, *widths), widths, strict=False):
            conv = nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False)
            layers += [conv, _conv_norm(norm, after), nn.ReLU()]
            image_size = (image_size + 1) // 2
        last = nn.Linear(widths[-1] * image_size**2, num_classes)
        super().__init__(*layers, nn.Flatten(), last)


def _conv_norm(norm: Norm, channels: int) -> nn.Module:
    make: dict[Norm, Callable[[int], nn.Module]] = {
        "none": partial(Bias, positions=2),
        "layernorm": partial(GroupNorm, 1),
        "batchnorm": BatchNorm2d,
    }
    return make[norm](channels)
