"""Build the documentation's site: `make docs`, or `python docs/build_site.py [BUILD]`.

    docs/, mkdocs.yml, pyproject.toml -> build/docs, build/mkdocs.yml -> build/site

Pages link to files of the repository by relative paths, which work on GitHub. The site does not
hold those files, so such links are rewritten to the address of the repository, the only one of
which is in `[project.urls]` of pyproject.toml. A link that leads nowhere fails the build.
"""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
#: The picture of the home page.
PICTURE = ROOT / "results" / "report" / "figures" / "lengths.png"
LINK = re.compile(r"(\]\()([^)\s:#]+)(#[^)\s]*)?(?=\))")


def staged(page: Path, repository: str) -> str:
    """Return the text of a page, with links that leave docs/ leading to the repository."""

    def rewritten(link: re.Match[str]) -> str:
        target = (page.parent / link[2]).resolve()
        if target.is_relative_to(ROOT / "docs") or not target.exists():
            return link[0]
        kind = "tree" if target.is_dir() else "blob"
        if target.suffix == ".png":  # a copy of it is part of the site
            return f"{link[1]}{target.name}"
        path = target.relative_to(ROOT).as_posix()
        return f"{link[1]}{repository}/{kind}/main/{path}{link[3] or ''}"

    return LINK.sub(rewritten, page.read_text(encoding="utf-8"))


def main(build: Path) -> None:
    """Build the site in a folder; end with the status of Zensical."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    repository, site = project["urls"]["Repository"], project["urls"]["Documentation"]
    docs = build / "docs"
    shutil.rmtree(docs, ignore_errors=True)
    shutil.copytree(ROOT / "docs", docs, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for page in (ROOT / "docs").rglob("*.md"):
        text = staged(page, repository)
        (docs / page.relative_to(ROOT / "docs")).write_text(text, encoding="utf-8")
    shutil.copy(PICTURE, docs)
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    config |= {"docs_dir": "docs", "site_dir": "site", "repo_url": repository, "site_url": site}
    (build / "mkdocs.yml").write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    command = [Path(sys.executable).parent / "zensical", "build", "--strict", "--clean"]
    sys.exit(subprocess.run([*command, "-f", build / "mkdocs.yml"]).returncode)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else ROOT / "build")
