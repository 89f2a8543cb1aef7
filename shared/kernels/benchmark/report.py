"""The report of a benchmark, as Markdown and as one HTML page."""

from __future__ import annotations

from html import escape

from shared.kernels.benchmark.measure import Measured

HEAD = [
    "operator",
    "shape",
    "phase",
    "ours ms",
    "torch ms",
    "ours / torch",
    "ours / floor",
    "lost to",
]
STYLE = (
    "body{font:15px/1.5 system-ui;margin:2rem}table{border-collapse:collapse}"
    "td,th{padding:.2rem .7rem;border-bottom:1px solid #ccc;text-align:right}"
    "td:first-child,td:nth-child(2){text-align:left}tr.lost{background:#fff0e0}"
)


def ours(m: Measured) -> float:
    """The best of our implementations: what the measured table makes `auto` choose."""
    return min(ms for name, ms in m.milliseconds.items() if name.startswith("ours:"))


def lost_to(m: Measured) -> list[str]:
    """Peers that were more than 5 % faster."""
    best = ours(m)
    return [n for n, ms in m.milliseconds.items() if not n.startswith("ours:") and ms < best / 1.05]


def cells(m: Measured) -> list[str]:
    """One line of the table."""
    if m.gate != "passed":
        return [m.operator, m.label, m.phase, f"no number: {m.gate}", "", "", "", ""]
    best, native = ours(m), m.milliseconds["torch"]
    floor = "" if not m.floor_ms else f"{best / m.floor_ms:.2f}"
    numbers = [f"{best:.3f}", f"{native:.3f}", f"{best / native:.2f}", floor]
    return [m.operator, m.label, m.phase, *numbers, ", ".join(lost_to(m))]


def summary(results: list[Measured]) -> list[str]:
    """The ratios that targets are set for."""
    by_row: dict[tuple[str, str], dict[str, Measured]] = {}
    for m in results:
        if m.gate == "passed":
            by_row.setdefault((m.operator, m.label), {})[m.phase] = m
    lines = []
    for (operator, label), phases in by_row.items():
        if "double_backward" in phases:
            once = ours(phases["forward"]) + ours(phases["backward"])
            ratio = ours(phases["double_backward"]) / once
            lines.append(
                f"{operator} {label}: double backward / (forward + backward) = {ratio:.1f}"
            )
        layer = by_row.get(("layer_norm", label))
        if operator == "rms_norm" and layer:
            pairs = [
                (ours(phases[p]), layer[p].milliseconds["torch"]) for p in ("forward", "backward")
            ]
            ratio = sum(a for a, _ in pairs) / sum(b for _, b in pairs)
            lines.append(f"rms_norm {label}: forward + backward / torch's layer_norm = {ratio:.2f}")
    lost = [m for m in results if m.gate == "passed" and lost_to(m)]
    lines.append(f"{len(lost)} of {len(results)} lines lost to a peer by more than 5 %")
    return lines


def _gpu_note(facts: dict[str, str]) -> str:
    return "" if facts["device"] == "cuda" else "GPU: not run (no device here)."


def markdown(facts: dict[str, str], results: list[Measured]) -> str:
    """The report as Markdown."""
    lines = ["# Benchmark of the operators", ""]
    lines += [f"- {k}: {v}" for k, v in facts.items()]
    lines += [
        "",
        _gpu_note(facts),
        "",
        "Every row passed the float64 gate before it was measured.",
        "",
    ]
    lines += [f"| {' | '.join(HEAD)} |", f"|{'---|' * len(HEAD)}"]
    lines += [f"| {' | '.join(cells(m))} |" for m in results]
    return "\n".join([*lines, "", *(f"- {s}" for s in summary(results))]) + "\n"


def html(facts: dict[str, str], results: list[Measured]) -> str:
    """The report as one page without outside resources."""
    head = "".join(f"<th>{escape(h)}</th>" for h in HEAD)
    body = ""
    for m in results:
        lost = m.gate != "passed" or bool(lost_to(m))
        line = "".join(f"<td>{escape(c)}</td>" for c in cells(m))
        body += f"<tr{' class=lost' if lost else ''}>{line}</tr>\n"
    about = "".join(f"<li>{escape(k)}: {escape(v)}</li>" for k, v in facts.items())
    notes = "".join(f"<li>{escape(s)}</li>" for s in summary(results))
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Benchmark of the operators"
        "</title>"
        f"<style>{STYLE}</style><h1>Benchmark of the operators</h1><ul>{about}</ul>"
        f"<p>{_gpu_note(facts)}</p><table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>"
        f"<ul>{notes}</ul></html>\n"
    )
