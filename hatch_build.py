"""The long description of the package: README.md, with links that work on a package index."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class ReadmeHook(MetadataHookInterface):
    """Makes the relative links and pictures of README.md absolute."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set `readme` from README.md and the address of the repository."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        tree = metadata["urls"]["Repository"] + "/blob/main/"
        raw = tree.replace("/blob/", "/raw/")  # what shows a picture
        text = re.sub(r"(!\[[^\]]*\]\()(?!https?:)", rf"\1{raw}", text)
        text = re.sub(r"(\]\()(?!https?:|#)", rf"\1{tree}", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
