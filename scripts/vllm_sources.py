"""Single source files out of vLLM's wheels on the package index that pip uses: a few range requests, not 400 MB.

Files are kept under the cache home, so that every version is asked for once.
"""

from __future__ import annotations

import io
import os
import re
import ssl
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

import httpx

from cockpit import paths

_DEFAULT_INDEX = "https://pypi.org/simple"
_JSON = "application/vnd.pypi.simple.v1+json"
_BLOCK_BYTES = 1 << 18
_TIMEOUT_SECONDS = 30.0


class UnreachableError(Exception):
    """The index cannot be asked: no network, no such version, or no range requests. Says why."""


def pip_settings() -> dict[str, list[str]]:
    """``index-url``, ``extra-index-url`` and ``cert`` as pip on this machine has them, the strongest last."""
    found: dict[str, list[str]] = {"index-url": [], "extra-index-url": [], "cert": []}
    for command in ([sys.executable, "-m", "pip"], ["pip"]):
        try:
            done = subprocess.run(
                [*command, "config", "list"], capture_output=True, text=True, timeout=60, check=False
            )
        except OSError:
            continue
        if done.returncode == 0:
            lines = done.stdout.splitlines()
            for key, values in found.items():
                pattern = re.compile(rf"^[\w:-]+\.{key}='(.*)'$")
                values += [match[1] for line in lines if (match := pattern.match(line))]
            break
    for key in found:
        given = os.environ.get(f"PIP_{key.upper().replace('-', '_')}")
        found[key] += [given] if given else []
    return found


def _indexes(settings: dict[str, list[str]]) -> list[str]:
    """Every index that is reached by HTTP, the main one first."""
    main = settings["index-url"][-1:] or [_DEFAULT_INDEX]
    urls = [*main, *(url for text in settings["extra-index-url"] for url in text.split())]
    return [url.rstrip("/") for url in urls if url.startswith(("http://", "https://"))]


def _client(settings: dict[str, list[str]]) -> httpx.Client:
    context = ssl.create_default_context(cafile=settings["cert"][-1] if settings["cert"] else None)
    return httpx.Client(verify=context, follow_redirects=True, timeout=_TIMEOUT_SECONDS)


def _wheels(client: httpx.Client, index: str, version: str) -> list[str]:
    """URLs of the version's wheels on one index, x86-64 first; PEP 691's JSON or PEP 503's HTML."""
    answer = client.get(f"{index}/vllm/", headers={"Accept": f"{_JSON}, text/html;q=0.1"})
    if answer.status_code != 200:
        return []
    if "json" in answer.headers.get("content-type", ""):
        links = [file["url"] for file in answer.json()["files"]]
    else:
        links = re.findall(r'href="([^"]+)"', answer.text)
    links = [link.split("#", 1)[0] for link in links]
    name = re.compile(rf"/vllm-{re.escape(version)}-[^/]*\.whl$")
    urls = [str(answer.url.join(link)) for link in links if name.search(link)]
    return sorted(urls, key=lambda url: "x86_64" not in url)


class _Ranges(io.RawIOBase):
    """A remote file that is read by ranges, each block once."""

    def __init__(self, client: httpx.Client, url: str) -> None:
        self._client, self._url = client, url
        self._blocks: dict[int, bytes] = {}
        self._at = 0
        head = self._get(0, 0)
        self.size = int(head.headers["content-range"].rsplit("/", 1)[1])

    def _get(self, first: int, last: int) -> httpx.Response:
        answer = self._client.get(self._url, headers={"Range": f"bytes={first}-{last}"})
        if answer.status_code != 206:
            raise UnreachableError(f"the index answers a range request with {answer.status_code}")
        return answer

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        block, skip = divmod(self._at, _BLOCK_BYTES)
        if self._at >= self.size:
            return 0
        if block not in self._blocks:
            last = min(self.size, (block + 1) * _BLOCK_BYTES) - 1
            self._blocks[block] = self._get(block * _BLOCK_BYTES, last).content
        part = self._blocks[block][skip : skip + len(buffer)]
        buffer[: len(part)] = part
        self._at += len(part)
        return len(part)


def sources(version: str, places: Iterable[str]) -> dict[str, str]:
    """The files at ``places`` below the vllm package of a version, as text; one that it has not is left out.

    Raises UnreachableError when they are not in the cache and the index cannot be asked.
    """
    folder = paths.cache_home() / "vllm-sources" / version
    wanted = sorted(set(places))
    if not all((folder / place).is_file() for place in wanted):
        try:
            _fetch(version, wanted, folder)
        except (httpx.HTTPError, OSError, zipfile.BadZipFile, KeyError, ValueError) as error:
            raise UnreachableError(f"{type(error).__name__}: {error}") from error
    return {place: (folder / place).read_text(encoding="utf-8") for place in wanted if (folder / place).is_file()}


def _fetch(version: str, wanted: list[str], folder: Path) -> None:
    settings = pip_settings()
    with _client(settings) as client:
        for index in _indexes(settings):
            for url in _wheels(client, index, version)[:1]:
                with zipfile.ZipFile(io.BufferedReader(_Ranges(client, url), _BLOCK_BYTES)) as wheel:
                    names = set(wheel.namelist())
                    for place in wanted:
                        if f"vllm/{place}" in names:
                            target = folder / place
                            target.parent.mkdir(parents=True, exist_ok=True)
                            target.write_bytes(wheel.read(f"vllm/{place}"))
                return
    raise UnreachableError(f"no index has a wheel of vLLM {version}")
