"""Make a release except for the upload: ``python .ci/release.py 0.1.0``.

It requires a clean tree. It writes the version and the date to their places, moves the changes of
`.github/changes` into CHANGELOG.md, builds and checks the packages as `make wheel` does, commits, and tags.
Its last line shows how to upload the packages in `dist/`. Nothing is pushed. If a step fails,
`git reset --hard` undoes the changes.
"""

from __future__ import annotations

import datetime
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path

from wheel import ROOT, packages, run

CHANGELOG = ROOT / "CHANGELOG.md"
CITATION = ROOT / "docs" / "CITATION.cff"
JAVASCRIPT = ROOT / "client" / "javascript" / "package.json"
PROJECT = ROOT / "pyproject.toml"


def main() -> None:
    """Check, write, build, commit and tag."""
    if len(sys.argv) != 2 or not re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", sys.argv[1]):
        raise SystemExit("usage: make release VERSION=0.1.0")
    version = sys.argv[1]
    check(version)
    date = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    replace(PROJECT, r'(?m)^version = ".*"$', f'version = "{version}"')
    replace(
        CITATION, r"(?m)^version: .*\n(date-released: .*\n)?", f"version: {version}\ndate-released: {date}\n"
    )
    changelog(version, date)
    run("git", "add", "--all", cwd=ROOT)
    with tempfile.TemporaryDirectory() as name:
        wheel = packages(Path(name))
        if version not in wheel.name.split("-"):
            raise SystemExit(f"the wheel is {wheel.name}: its version does not come from pyproject.toml")
        shutil.rmtree(ROOT / "dist", ignore_errors=True)
        (ROOT / "dist").mkdir()
        for path in (wheel, *Path(name).glob("*.tar.gz")):
            shutil.copy(path, ROOT / "dist")
    run("git", "commit", "--quiet", "--message", f"Release {version}", cwd=ROOT)
    run("git", "tag", "--annotate", f"v{version}", "--message", f"arcwise {version}", cwd=ROOT)
    print(
        f"tagged v{version}; dist/ has its packages. Once .ci/run has passed, run:\n"
        f"  git push origin HEAD v{version}\n  python -m twine upload dist/*"
    )


def check(version: str) -> None:
    """Refuse a changed tree, a version that is tagged or differs from JavaScript's, and a bad citation."""
    if run("git", "status", "--porcelain", cwd=ROOT, capture=True):
        raise SystemExit("the tree has changes: commit or stash them first")
    if run("git", "tag", "--list", f"v{version}", cwd=ROOT, capture=True):
        raise SystemExit(f"v{version} is already tagged")
    other = json.loads(JAVASCRIPT.read_text(encoding="utf-8"))["version"]
    if other != version:
        raise SystemExit(f"{JAVASCRIPT.relative_to(ROOT)} has version {other}: release both together")
    cff = (sys.executable, "-m", "uv", "tool", "run", "--quiet", "cffconvert", "--validate", "--infile")
    run(*cff, CITATION.name, cwd=CITATION.parent)


def changelog(version: str, date: str) -> None:
    """Move the changes into the changelog, under its unreleased heading or, without one, a new heading."""
    build = (sys.executable, "-m", "towncrier", "build", "--version", version, "--date", date)
    heading = f"## {version} (unreleased)\n"
    text = CHANGELOG.read_text(encoding="utf-8")
    fragments = [path for path in (ROOT / ".github" / "changes").glob("*.md") if path.name != "README.md"]
    if heading not in text:
        run(*build, "--yes", cwd=ROOT)
        return
    before, after = text.split(heading)
    section, *others = re.split(r"(?m)^(?=## )", after)
    if fragments:
        drafted = run(*build, "--draft", cwd=ROOT, capture=True)
        # Additions continue the list of the section, which is a list of additions.
        more = drafted[drafted.index("### ") :].strip().removeprefix("### Added\n\n")
        section = section.rstrip() + ("\n" if more.startswith("-") else "\n\n") + f"{more}\n\n"
        for path in fragments:
            path.unlink()
    whole = "".join([before, f"## {version} ({date})\n", section, *others])
    CHANGELOG.write_text(f"{whole.rstrip()}\n", encoding="utf-8")


def replace(path: Path, pattern: str, text: str) -> None:
    """Replace the only place in a file that a pattern matches."""
    new, count = re.subn(pattern, text, path.read_text(encoding="utf-8"))
    if count != 1:
        raise SystemExit(f"{path.name} must have exactly one place for the version, but has {count}")
    path.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
