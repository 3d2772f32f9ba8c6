"""Files that pages load: each under a name with its digest, so that a browser keeps it for ever."""

import hashlib
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from fastapi import Request, Response

_FOLDER: Final = Path(__file__).parent / "assets"
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_DIGEST_CHARS: Final = 16
_FOR_EVER: Final = {"Cache-Control": "public, max-age=31536000, immutable"}


class Asset(NamedTuple):
    """A file, its type, and the name under which it is served."""

    name: str
    media_type: str
    content: bytes


@cache
def load_assets() -> dict[str, Asset]:
    """Return all files, by their own names."""
    found: dict[str, Asset] = {}
    for path in sorted(_FOLDER.iterdir()):
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()[:_DIGEST_CHARS]
        name = f"{path.stem}.{digest}{path.suffix}"
        found[path.name] = Asset(name, _TYPES[path.suffix], content)
    return found


async def serve_asset(request: Request) -> Response:
    """Answer with a file by the name that pages have for it. None has secrets."""
    name = request.path_params["name"]
    for asset in load_assets().values():
        if asset.name == name:
            return Response(asset.content, 200, _FOR_EVER, asset.media_type)
    return Response("There is no such file.\n", 404, media_type="text/plain")
