"""The trained source network, and the streams of shifted images that it is tested on.

Legend: N images, C channels, K classes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from safetensors.torch import load_file
from torch import Tensor

from papers.tent.model import ResNet
from shared.records.base import RecordError, read_record
from shared.records.experiment import RunSettings
from shared.training.run_context import Run

Order = Literal["shuffled", "sorted"]

# Places in a stream of these labels, whose order is random.
ORDERS: dict[Order, Callable[[Tensor], Tensor]] = {
    "shuffled": lambda labels_N: torch.arange(len(labels_N)),
    "sorted": lambda labels_N: labels_N.argsort(stable=True),
}


@dataclass(frozen=True)
class Source:
    """A trained network and what its training images were standardised by."""

    net: ResNet
    mean: Tensor
    std: Tensor

    def standardise(self, pixels_NCHW: Tensor) -> Tensor:
        """(pixel / 255 - mean) / std, in the memory format that is quicker on a CPU."""
        x_NCHW = pixels_NCHW.to(self.mean.device, self.mean.dtype).div_(255)
        x_NCHW = x_NCHW.sub_(self.mean.view(1, -1, 1, 1)).div_(self.std.view(1, -1, 1, 1))
        return x_NCHW.contiguous(memory_format=torch.channels_last)


def load_source(run: Run, name: str) -> Source:
    """The network of the run that is named so under `needs`, built as that run built it."""
    settings = read_record(run.settings.needs[name].directory() / "settings.json", RunSettings)
    known = inspect.signature(ResNet).parameters
    net = ResNet(**{key: value for key, value in settings.settings.items() if key in known})
    weights = load_file(run.artifact(name), device=str(run.device))
    net.load_state_dict(
        {key.removeprefix("net."): value for key, value in weights.items() if key[:4] == "net."}
    )
    net.to(run.device).to(memory_format=torch.channels_last)
    return Source(net.eval(), weights["pixel_mean"], weights["pixel_std"])


@dataclass(frozen=True)
class Stream:
    """Test images of one shift with their labels, cut into batches in a fixed order.

    Attributes:
        pixels: uint8 (N, C, H, W).
        labels: (N,).
        order: (N,), the place of each image in `pixels`, first to last.
    """

    source: Source
    pixels: Tensor
    labels: Tensor
    order: Tensor
    batch_size: int

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for chosen in self.order.split(self.batch_size):
            x_NCHW = self.source.standardise(self.pixels[chosen])
            yield x_NCHW, self.labels[chosen].to(x_NCHW.device)


class Streams:
    """The streams of a run: of each corruption, in the order of its seed, for every method alike.

    Args:
        source: standardises the images.
        batch_size: images of a batch; the last one may be smaller.
        num_images: the first N; None: all that there are.
        order: `shuffled`: the order of the seed; `sorted`: by label.

    Raises:
        ValueError: numbers or an order that cannot be.
    """

    def __init__(
        self,
        run: Run,
        source: Source,
        batch_size: int,
        num_images: int | None = None,
        order: Order = "shuffled",
    ) -> None:
        if batch_size < 1 or (num_images is not None and num_images < 1) or order not in ORDERS:
            raise RecordError(
                f"got batch_size {batch_size}, num_images {num_images} and order {order!r}, "
                f"expected 1 or more, 1 or more or None, and one of {', '.join(ORDERS)}"
            )
        self._data = run.dataset()
        self._seed = run.key.seed
        self._source = source
        self._batch_size = batch_size
        self._num_images = num_images
        self._order = order

    def of(self, kind: str, severity: int = 5, split: Literal["test", "train"] = "test") -> Stream:
        """The stream of one corruption.

        Raises:
            ValueError: more images were asked for than there are.
        """
        pixels_NCHW = torch.from_numpy(self._data.array(f"{split}_{kind}_{severity}_images"))
        num = len(pixels_NCHW) if self._num_images is None else self._num_images
        if num > len(pixels_NCHW):
            raise RecordError(
                f"num_images: got {num}, expected at most the {len(pixels_NCHW)} images of {kind} "
                f"at severity {severity}"
            )
        labels_N = torch.from_numpy(self._data.array(f"{split}_labels"))[:num]
        drawn_N = torch.randperm(num, generator=torch.Generator().manual_seed(self._seed))
        order_N = drawn_N[ORDERS[self._order](labels_N[drawn_N])]
        return Stream(self._source, pixels_NCHW[:num], labels_N, order_N, self._batch_size)
