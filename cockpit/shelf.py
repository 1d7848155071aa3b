"""The configuration and its slugs: all that the first frame of the screen needs to know."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from cockpit import paths
from cockpit.catalog.load import Catalog, load
from cockpit.config import Config, load_config
from cockpit.errors import CockpitError


class Shelf:
    """Slugs are read once, when first needed, and kept; ``reread_slugs`` forgets them."""

    def __init__(self, config: Config | None = None) -> None:
        self.config = load_config() if config is None else config

    @cached_property
    def catalog(self) -> Catalog:
        """All slugs: shipped ones, the user's over them, then the configured folders."""
        folders = [Path(folder).expanduser() for folder in self.config.slug_folders]
        for folder in folders:
            if not folder.is_dir():
                raise CockpitError(
                    f"{folder} of slug_folders is not a folder", fix="Correct slug_folders in config.yaml."
                )
        return load(paths.shipped("slugs"), (paths.user_slugs(), *folders))

    def reread_slugs(self) -> None:
        """Forget the catalog alone: slug files are read again at once, rig and engines are not."""
        self.__dict__.pop("catalog", None)

    def take_over(self, other: Shelf) -> None:
        """Have what ``other`` has read already."""
        self.config = other.config
        if "catalog" in other.__dict__:
            self.__dict__["catalog"] = other.catalog
