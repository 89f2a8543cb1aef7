"""Charts as the page needs them: a specification, a still picture, and the Vega bundle."""

from __future__ import annotations

import re
from typing import Any

import altair as alt
import vl_convert

VERSION = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
PICTURE_WIDTH = 660

# Okabe and Ito, Color Universal Design (2008), with orange, sky blue and yellow darkened so that
# every colour has a contrast of at least 3 to white.
LIGHT_SERIES = (
    "#0072b2",
    "#d55e00",
    "#00855f",
    "#b6579b",
    "#b07800",
    "#2b8cc4",
    "#3d3d3d",
    "#8a7a00",
)
LAYOUT: dict[str, Any] = {
    "view": {"stroke": None},
    "axis": {"titleFontWeight": "normal", "labelFontSize": 12, "titleFontSize": 12},
    "axisY": {"labelLimit": 150},
    "legend": {
        "orient": "top",
        "offset": 26,
        "labelLimit": 200,
        "labelFontSize": 12,
        "symbolOpacity": 1,
        "rowPadding": 5,
        "symbolStrokeWidth": 2,
    },
    "title": {"offset": 8},
}
"""What is the same in every theme; a page adds its colours and its font."""

PICTURE_THEME: dict[str, Any] = {
    "aria": False,
    "background": "white",
    "font": "Arial, Helvetica, sans-serif",
    "range": {"category": list(LIGHT_SERIES)},
    "axis": {"gridColor": "#e3e6ea", "domainColor": "#8b949e"},
}


def spec(chart: alt.TopLevelMixin) -> dict[str, Any]:
    """The Vega-Lite specification of a chart, without theme: the page brings its own.

    Raises:
        ValueError: the chart would load data over a network.
    """
    content: dict[str, Any] = chart.to_dict()
    content.pop("$schema", None)
    content["config"] = LAYOUT
    _refuse_urls(content)
    return content


def svg(content: dict[str, Any], prefix: str) -> str:
    """A still picture. `prefix` keeps the ids of several pictures in one page apart."""
    text: str = vl_convert.vegalite_to_svg(
        _sized(content), vl_version=VERSION, config=PICTURE_THEME
    )
    # Marks that show only under a pointer, and digits that no screen shows, are most of the file.
    text = re.sub(r'<path [^>]*\b(opacity="0"|fill="transparent")[^>]*/>', "", text)
    text = re.sub(r'\b(d|transform)="[^"]*"', _short_numbers, text)
    text = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', text)
    return re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", text)


def png(content: dict[str, Any]) -> bytes:
    """A still picture for readers that show neither Vega nor SVG."""
    picture: bytes = vl_convert.vegalite_to_png(
        _sized(content), vl_version=VERSION, config=PICTURE_THEME
    )
    return picture


def standalone(content: dict[str, Any]) -> dict[str, Any]:
    """A specification that looks the same outside a page, e.g. in a notebook."""
    return {
        "$schema": f"https://vega.github.io/schema/vega-lite/{alt.SCHEMA_VERSION}.json",
        **_sized(content),
        "config": {**PICTURE_THEME, **LAYOUT, "axis": {**LAYOUT["axis"], **PICTURE_THEME["axis"]}},
    }


def bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script (0.9 MB), safe inside a script element."""
    text: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VERSION)
    return text.replace("</script", r"<\/script")


def _short_numbers(attribute: re.Match[str]) -> str:
    return re.sub(r"(\d\.\d\d)\d+", r"\1", attribute.group())


def _sized(content: dict[str, Any]) -> dict[str, Any]:
    return {**content, "width": PICTURE_WIDTH} if content.get("width") == "container" else content


def _refuse_urls(part: Any) -> None:
    if isinstance(part, dict):
        data = part.get("data")
        if isinstance(data, dict) and "url" in data:
            raise ValueError(
                f"a chart reads {data['url']!r}, but a page works without a network: give inline "
                "data"
            )
        for value in part.values():
            _refuse_urls(value)
    elif isinstance(part, list):
        for value in part:
            _refuse_urls(value)
