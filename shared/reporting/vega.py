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
PICTURE_CONFIG = {
    "background": "transparent",
    "font": "Arial, Helvetica, sans-serif",
    "range": {"category": list(LIGHT_SERIES)},
    "view": {"stroke": None},
    "axis": {"gridColor": "#e3e6ea", "domainColor": "#8b949e", "titleFontWeight": "normal"},
    "legend": {"orient": "top", "labelLimit": 220},
}


def spec(chart: alt.TopLevelMixin) -> dict[str, Any]:
    """The Vega-Lite specification of a chart, without theme: the page brings its own.

    Raises:
        ValueError: the chart would load data over a network.
    """
    content: dict[str, Any] = chart.to_dict()
    content.pop("config", None)
    content.pop("$schema", None)
    _refuse_urls(content)
    return content


def svg(content: dict[str, Any], prefix: str) -> str:
    """A still picture. `prefix` keeps the ids of several pictures in one page apart."""
    text: str = vl_convert.vegalite_to_svg(
        _sized(content), vl_version=VERSION, config=PICTURE_CONFIG
    )
    text = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', text)
    return re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", text)


def png(content: dict[str, Any]) -> bytes:
    """A still picture for readers that show neither Vega nor SVG."""
    config = {**PICTURE_CONFIG, "background": "white"}
    picture: bytes = vl_convert.vegalite_to_png(_sized(content), vl_version=VERSION, config=config)
    return picture


def bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script (0.9 MB), safe inside a script element."""
    text: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VERSION)
    return text.replace("</script", r"<\/script")


def _sized(content: dict[str, Any]) -> dict[str, Any]:
    return {**content, "width": PICTURE_WIDTH} if content.get("width") == "container" else content


def _refuse_urls(part: Any) -> None:
    if isinstance(part, dict):
        data = part.get("data")
        if isinstance(data, dict) and "url" in data:
            raise ValueError(
                f"a chart reads {data['url']!r}; a page works without a network, so give inline data"
            )
        for value in part.values():
            _refuse_urls(value)
    elif isinstance(part, list):
        for value in part:
            _refuse_urls(value)
