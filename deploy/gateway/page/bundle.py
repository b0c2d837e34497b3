"""The page as a file of its own, with the answers that it would get from a gateway."""

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterator
from typing import Final

from eunoe.deploy.gateway.page.assets import FILES_PATH, assets

_IMPORT: Final = re.compile(r'from "\./([\w-]+\.m?js)"')
_OWN: Final = "eunoe/"
"""Prefix of the names by which the modules find each other in the file."""


def page_file(conversation_id: str, snapshot: bytes) -> str:
    """The HTML of a page that carries its answers, as JSON; it asks no server for anything."""
    modules = {name: _module(text) for name, text in _scripts()}
    imports = json.dumps({"imports": modules})
    begin = f'import "{_OWN}main.js";'
    style = "".join(assets()[FILES_PATH + name].content.decode() for name in ("page.css", "views.css"))
    policy = (
        f"default-src 'none'; script-src {_hashed(imports)} {_hashed(begin)} data:; style-src {_hashed(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )
    carried = snapshot.decode().replace("<", "\\u003c")  # nothing in it ends the element
    return f"""<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta http-equiv="Content-Security-Policy" content="{policy}" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <title>{html.escape(conversation_id)} – eunoe</title>
    <link rel="icon" href="data:," />
    <style>{style}</style>
    <script type="importmap">{imports}</script>
  </head>
  <body>
    <div id="page"></div>
    <script type="application/json" id="carried">{carried}</script>
    <script type="module">{begin}</script>
  </body>
</html>
"""


def _scripts() -> Iterator[tuple[str, str]]:
    for asset in assets().values():
        if asset.name.endswith((".js", ".mjs")):
            yield _OWN + asset.name, asset.content.decode()


def _module(text: str) -> str:
    own = _IMPORT.sub(lambda found: f'from "{_OWN}{found[1]}"', text)
    return "data:text/javascript;base64," + base64.b64encode(own.encode()).decode()


def _hashed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
