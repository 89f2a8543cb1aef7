"""Renders the templates: text is escaped, style and scripts are part of the page."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

FOLDER = Path(__file__).with_name("templates")


@dataclass(frozen=True)
class Script:
    """A script inside the page. The page's policy names its digest, so that no other one runs."""

    text: Markup
    digest: str

    @classmethod
    def of(cls, text: str) -> Script:
        digest = hashlib.sha256(text.encode()).digest()
        return cls(Markup(text), f"sha256-{base64.b64encode(digest).decode()}")

    @classmethod
    def read(cls, name: str) -> Script:
        return cls.of(_asset(name))


def render(template: str, scripts: Sequence[Script] = (), **context: Any) -> str:
    """One self-contained HTML file.

    Args:
        scripts: run at the end of the page, in this order.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    theme = Script.read("theme.js")
    digests = " ".join(f"'{script.digest}'" for script in (theme, *scripts))
    # `default-src 'none'`: the browser itself refuses any request that the page could make.
    policy = (
        f"default-src 'none'; script-src {digests}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    text = environment.get_template(template).render(
        policy=policy,
        theme=theme,
        scripts=scripts,
        style=Markup(_asset("style.css")),
        dark_style=Markup(_asset("dark.css")),
        **context,
    )
    return text + "\n"


def _asset(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")
