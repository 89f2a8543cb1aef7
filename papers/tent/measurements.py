"""Test-time adaptation of the source network, method by method, with a reset before every shift.

A run is one method on all shifts, with one order of the test stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from papers.tent.method import (
    Loss,
    Selection,
    Tent,
    affine_of_norms,
    entropy,
    pseudo_label_loss,
    tent,
)
from papers.tent.streams import Order, Source, Stream, Streams, load_source
from shared.records.base import RecordError
from shared.records.metrics import Row
from shared.training.run_context import Run


def last_layer(model: nn.Module) -> list[nn.Parameter]:
    """Weight and bias of the last linear layer."""
    return list([m for m in model.modules() if isinstance(m, nn.Linear)][-1].parameters())


def all_parameters(model: nn.Module) -> list[nn.Parameter]:
    return list(model.parameters())


class Method(NamedTuple):
    """How a network meets its test images. `adapts`: whether it takes steps."""

    statistics: Literal["batch", "source"] = "batch"
    adapts: bool = True
    loss: Loss = entropy
    select: Selection = affine_of_norms


MethodName = Literal[
    "source",
    "bn",
    "pseudo_label",
    "tent",
    "affine_only",
    "last_layer",
    "last_layer_only",
    "all_parameters",
    "all_parameters_only",
]
METHODS: dict[MethodName, Method] = {
    "source": Method("source", adapts=False),
    "bn": Method(adapts=False),
    "pseudo_label": Method(loss=pseudo_label_loss),
    "tent": Method(),
    "affine_only": Method("source"),
    "last_layer": Method(select=last_layer),
    "last_layer_only": Method("source", select=last_layer),
    "all_parameters": Method(select=all_parameters),
    "all_parameters_only": Method("source", select=all_parameters),
}


def corruptions(
    run: Run,
    method: MethodName,
    kinds: Sequence[str],
    batch_size: int,
    lr: float,
    severity: int = 5,
    source: str = "batchnorm",
    num_images: int | None = None,
    order: Order = "shuffled",
    epochs: int = 1,
) -> Iterator[Row]:
    """Error under each corruption, and the mean over the corruptions.

    `error_percent`: of the predictions from before each step (online); its split is the corruption
    and its step the number of the pass over the stream. `offline_error_percent`: of one more pass
    that takes no steps. `error_change_percent`: mean error of the last pass minus the first's.

    Args:
        method: see `METHODS`.
        source: the source network, a name under `needs`.
        num_images, order: see `Streams`.
        epochs: passes over the stream in which the method adapts.
    """
    _some(kinds=len(kinds), epochs=epochs)
    trained = load_source(run, source)
    model = build(method, trained, lr)
    streams = Streams(run, trained, batch_size, num_images, order)
    online: dict[int, list[float]] = {}
    offline = []
    for kind in kinds:
        images = streams.of(kind, severity)
        model.reset()
        passes, after = _errors(model, method, images, epochs)
        for epoch, error in enumerate(passes, 1):
            yield Row("error_percent", error, "percent", kind, epoch)
            online.setdefault(epoch, []).append(error)
        yield Row("offline_error_percent", after, "percent", kind)
        offline.append(after)
    means = {epoch: _mean(errors) for epoch, errors in online.items()}
    for epoch, mean in means.items():
        yield Row("mean_error_percent", mean, "percent", step=epoch)
    yield Row("mean_offline_error_percent", _mean(offline), "percent")
    yield Row("error_change_percent", means[max(means)] - means[1], "percent")


def build(method: MethodName, source: Source, lr: float) -> Tent:
    """A copy of the source network that follows a method."""
    chosen = METHODS[method]
    return tent(
        source.net, lr=lr, statistics=chosen.statistics, select=chosen.select, loss=chosen.loss
    )


def _errors(
    model: Tent, method: MethodName, images: Stream, epochs: int
) -> tuple[list[float], float]:
    """The error of each pass, and that after all of them; one and the same if nothing adapts."""
    if not METHODS[method].adapts:
        error = evaluate(model.predict, images)["error_percent"]
        return [error], error
    passes = [evaluate(model, images)["error_percent"] for _ in range(epochs)]
    return passes, evaluate(model.predict, images)["error_percent"]


def _some(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise RecordError(f"{name}: got {count}, expected 1 or more")


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def evaluate(predict: Callable[[Tensor], Tensor], images: Stream) -> dict[str, float]:
    """Error (percent), loss and entropy (nats) over one pass; images count alike."""
    sums: dict[str, Any] = {"error_percent": 0.0, "loss": 0.0, "entropy": 0.0}
    for x_NCHW, labels_N in images:
        logits_NK = predict(x_NCHW)
        wrong = (logits_NK.argmax(dim=1) != labels_N).sum()
        sums["error_percent"] += 100.0 * wrong
        sums["loss"] += cross_entropy(logits_NK, labels_N, reduction="sum").double()
        sums["entropy"] += entropy(logits_NK).double() * len(labels_N)
    return {name: float(total) / len(images.order) for name, total in sums.items()}


def shifts(
    run: Run,
    method: MethodName,
    kinds: Sequence[str],
    severities: Sequence[int],
    num_images: int | None,
    batch_size: int,
    lr: float,
) -> Iterator[Row]:
    """Every corruption at every severity; the step of a row is the severity.

    Of a method that adapts also the change of the mean entropy and of the mean loss, measured
    before and after one pass of adaptation, and the share of the shifts in which they fall.

    Source: figure 6 of the paper.
    """
    _some(kinds=len(kinds), severities=len(severities))
    trained = load_source(run, "batchnorm")
    model = build(method, trained, lr)
    streams = Streams(run, trained, batch_size, num_images)
    changes: list[tuple[float, float]] = []
    for severity in severities:
        errors = []
        for kind in kinds:
            images = streams.of(kind, severity)
            model.reset()
            before = evaluate(model.predict, images)
            error = before["error_percent"]
            if METHODS[method].adapts:
                error = evaluate(model, images)["error_percent"]
                after = evaluate(model.predict, images)
                change = {name: after[name] - before[name] for name in ("entropy", "loss")}
                for name, value in change.items():
                    yield Row(f"{name}_change", value, "nats", kind, severity)
                changes.append((change["entropy"], change["loss"]))
            yield Row("error_percent", error, "percent", kind, severity)
            errors.append(error)
        yield Row("mean_error_percent", _mean(errors), "percent", step=severity)
    if changes:
        yield from _shares(changes)


def _shares(changes: list[tuple[float, float]]) -> Iterator[Row]:
    falls = [(entropy_change < 0, loss_change < 0) for entropy_change, loss_change in changes]
    for name, count in (
        ("entropy", sum(entropy_falls for entropy_falls, _ in falls)),
        ("loss", sum(loss_falls for _, loss_falls in falls)),
        ("both", sum(both == (True, True) for both in falls)),
    ):
        yield Row(f"share_where_{name}_fall", count / len(falls), "1")


def unseen(
    run: Run,
    adapt_on: Literal["nothing", "test", "train"],
    kinds: Sequence[str],
    batch_size: int,
    lr: float,
    num_images: int | None = None,
) -> Iterator[Row]:
    """Error on test images after one pass over the test images themselves or over others.

    `train`: training images with the same kind of corruption. The test images are normalised by
    their own batches in all cases, and take no step.

    Source: section 4.3 of the paper, target generalization.
    """
    _some(kinds=len(kinds))
    trained = load_source(run, "batchnorm")
    model = build("tent", trained, lr)
    streams = Streams(run, trained, batch_size, num_images)
    errors = []
    for kind in kinds:
        model.reset()
        if adapt_on != "nothing":
            evaluate(model, streams.of(kind, split=adapt_on))
        errors.append(evaluate(model.predict, streams.of(kind))["error_percent"])
        yield Row("error_percent", errors[-1], "percent", kind)
    yield Row("mean_error_percent", _mean(errors), "percent")


def identities(
    run: Run, source: str, kind: str, batch_size: int, num_batches: int, lr: float
) -> Iterator[Row]:
    """What holds exactly of Tent, on a stream of real images and in their precision.

    All are largest absolute differences, and 0 where the identity holds bit for bit.
    """
    _some(num_batches=num_batches)
    trained = load_source(run, source)
    images = Streams(run, trained, batch_size, batch_size * num_batches).of(kind)
    baseline = build("bn", trained, lr)
    adapting = build("tent", trained, lr)
    without_rate = build("tent", trained, 0.0)
    expected = [baseline.predict(x_NCHW) for x_NCHW, _ in images]

    first = [adapting(x_NCHW) for x_NCHW, _ in images]
    moved = _largest_changes(trained.net, adapting)
    yield Row("first_batch_difference", _difference(first[:1], expected[:1]), "logit")
    yield Row(
        "zero_rate_difference", _difference([without_rate(x) for x, _ in images], expected), "logit"
    )
    yield Row("affine_change", moved["affine"], "1")
    yield Row("other_change", moved["other"], "1")
    adapting.reset()
    yield Row("reset_difference", _difference([adapting(x) for x, _ in images], first), "logit")
    differences = []
    for mode in (False, True):
        adapting.reset()
        for module in adapting.modules():
            module.train(mode)
        differences.append(_difference([adapting(x) for x, _ in images], first))
    yield Row("eval_difference", max(differences), "logit")


def _difference(first: list[Tensor], second: list[Tensor]) -> float:
    return (torch.cat(first) - torch.cat(second)).abs().max().item()


def _largest_changes(before: nn.Module, after: Tent) -> dict[str, float]:
    """Of the affine parameters of the norms, and of all else in the state of the network."""
    adapted = {id(parameter) for parameter in after.adapted}
    affine = {name for name, p in after.model.named_parameters() if id(p) in adapted}
    largest = {"affine": 0.0, "other": 0.0}
    old, new = before.state_dict(), after.model.state_dict()
    for name in old:
        change = (new[name].double() - old[name].double()).abs().max().item()
        group = "affine" if name in affine else "other"
        largest[group] = max(largest[group], change)
    return largest
