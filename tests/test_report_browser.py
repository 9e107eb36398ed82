"""The report in a real browser, headless: from a file, on a phone, in the dark."""

import shutil
import subprocess
from pathlib import Path

import pytest
from PIL import Image

from tests.commands import succeeded
from tests.results import coin, results_of, save
from tests.running.processes import evaluate
from tests.runs import reported
from tests.test_report import few, hostile

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium is here")


def browse(page: Path, *options: str, state: str = "") -> str:
    """Open a page, with a state in its address, and return what the browser printed."""
    profile = page.parent / "profile"
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
               f"--user-data-dir={profile}", *options, f"{page.as_uri()}#{state}"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return succeeded(done).stdout


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a report of one run."""
    folder = tmp_path_factory.mktemp("browser")
    succeeded(evaluate("report", save(folder / "run", few("one")), "--out", folder / "out"))
    return folder / "out" / "index.html"


def shot(page: Path, name: str, width: int, *options: str) -> Image.Image:
    path = page.parent / f"{name}.png"
    browse(page, f"--screenshot={path}", f"--window-size={width},1600", *options)
    with Image.open(path) as image:
        return image.convert("RGB")


@pytest.mark.slow
def test_the_page_is_light_or_dark_as_its_reader_likes(page: Path) -> None:
    light = shot(page, "light", 1000)
    dark = shot(page, "dark", 1000, "--blink-settings=preferredColorScheme=0")
    assert light.getpixel((3, 3)) == (255, 255, 255)
    assert max(dark.getpixel((3, 3))) < 40  # type: ignore[arg-type]
    for image in (light, dark):  # text, axes and lines stand out from the ground
        assert len(image.getcolors(maxcolors=1 << 20) or ()) > 100


#: Says whether the page is no wider than the screen and no text wider than its cell, which tables
#: are wider than their place, and whether those end there once they are scrolled; the page's own
#: policy would not let it run.
PROBE = """<script>
const page = document.documentElement;
page.dataset.fits = page.scrollWidth <= page.clientWidth && page.clientWidth <= WIDTH
  && [...document.querySelectorAll("td")].every((cell) => cell.scrollWidth <= cell.clientWidth);
const wide = [...document.querySelectorAll(".table > div")].filter(
  (place) => place.scrollWidth > place.clientWidth);
page.dataset.wide = wide.map((place) => place.parentElement.className).join();
for (const place of wide) place.scrollLeft = 1e6;
page.dataset.whole = wide.every((place) => place.getBoundingClientRect().right + 1
  > place.firstElementChild.getBoundingClientRect().right);
</script></body>"""


def probe(page: Path, width: int) -> str:
    """Return what the script says of a page on a screen of this width."""
    text = page.read_text(encoding="utf-8")
    assert "default-src 'none'; " in text
    free = text.replace("default-src 'none'; ", "")
    probed = page.with_name(f"probed-{width}.html")
    script = PROBE.replace("WIDTH", str(width))
    probed.write_text(free.replace("</body>", script), encoding="utf-8")
    return browse(probed, "--dump-dom", f"--window-size={width},900")


@pytest.mark.slow
@pytest.mark.parametrize("width", [500, 1400])
def test_the_page_is_no_wider_than_the_screen(page: Path, width: int) -> None:
    assert 'data-fits="true"' in probe(page, width)


@pytest.mark.slow
def test_a_wide_table_scrolls_on_a_small_screen(tmp_path: Path) -> None:
    lengths = (4096, 8192, 16384, 32768, 65536, 131072)
    configs = [f"{task}_{length}" for task in ("vt", "cwe") for length in lengths]
    runs = [results_of({name: coin(f"{number}{name}", 0.5, 11) for name in configs},
                       model=f"org/model-{number}") for number in range(7)]  # fmt: skip
    places = [save(tmp_path / str(number), run) for number, run in enumerate(runs)]
    reported(tmp_path / "out", *places, "--claimed")
    large, small = (probe(tmp_path / "out" / "index.html", width) for width in (1400, 500))
    for said in (large, small):
        assert 'data-fits="true"' in said and 'data-whole="true"' in said
    assert 'data-wide="table ' in small


def test_hostile_answers_do_not_run(tmp_path: Path) -> None:
    reported(tmp_path / "out", save(tmp_path / "run", hostile()))
    dom = browse(tmp_path / "out" / "index.html", "--dump-dom")
    assert "<title>owned" not in dom and "<title>RULER: " in dom
