"""Looking at the job page in a browser: opening it under watch, and reading from it."""

from __future__ import annotations

import base64
import contextlib
import re
from collections.abc import Callable, Iterator

from playwright.sync_api import Browser, Page, expect

from sparkstate_tools.drivers.control_job import TOKEN

Open = Callable[..., Page]

PATIENCE_MS = 30_000
"""How long an element may take to become what is expected: a machine under load draws late, and that is no fault."""
expect.set_options(timeout=PATIENCE_MS)

_RATIO = """
const ratio = (one, other) => {
  const parts = (color) => color.match(/[\\d.]+/g).slice(0, 3).map((value) => value / 255);
  const linear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const light = (color) => {
    const [red, green, blue] = parts(color).map(linear);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
};
"""
_CONTRAST = f"""
([text, ground]) => {{
  {_RATIO}
  const paint = (selector, property) => {{
    const found = document.querySelector(selector);
    return getComputedStyle(found)[found instanceof SVGElement ? 'fill' : property];
  }};
  return ratio(paint(text, 'color'), paint(ground, 'backgroundColor'));
}}
"""
_PAINTED = f"""
async ([png, one, other]) => {{
  {_RATIO}
  const bytes = Uint8Array.from(atob(png), (letter) => letter.charCodeAt(0));
  const drawn = await createImageBitmap(new Blob([bytes]));
  const paper = new OffscreenCanvas(drawn.width, drawn.height).getContext('2d', {{ willReadFrequently: true }});
  paper.drawImage(drawn, 0, 0);
  const [width, middle] = [drawn.width, Math.floor(drawn.height / 2)];
  const at = (share) => paper.getImageData(Math.floor(share * width), middle, 1, 1).data.join(' ');
  return ratio(at(one), at(other));
}}
"""


@contextlib.contextmanager
def watched(chromium: Browser, address: str) -> Iterator[Open]:
    """Opens the page of the endpoint at ``address`` with a token (None: without) and a context's options.

    Afterwards nothing may have come from elsewhere, and no script may have failed.
    """
    contexts = []
    problems: list[str] = []
    requested: list[str] = []

    def told(message: str) -> None:
        if is_problem(message):
            problems.append(message)

    def visit(token: str | None = TOKEN, **options: object) -> Page:
        context = chromium.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: told(message.text))
        page.on("request", lambda request: requested.append(request.url))
        page.goto(f"{address}/ui/" + (f"#token={token}" if token else ""))
        return page

    yield visit
    for context in contexts:
        context.close()
    assert problems == [], problems
    assert [url for url in requested if not url.startswith(f"{address}/")] == []


def is_problem(message: str) -> bool:
    """Refused keys, lost drivers and slots are part of the tests; the rest on the console is not."""
    return not re.search(
        r"status of (401|403|404|503)|ERR_CONNECTION_REFUSED|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET", message
    )


def expect_tile(page: Page, name: str, text: str | re.Pattern[str]) -> None:
    """One of the figures at the top becomes ``text``, its two lines joined by a blank."""
    expect(page.locator(f"[data-tile='{name}'] dd")).to_have_text(text, use_inner_text=True)


def boxes(page: Page, selector: str) -> list[dict[str, float]]:
    """Where all elements of a selector are, read in one instant: between two reads the page may draw itself anew."""
    found: list[dict[str, float]] = page.evaluate(
        "selector => [...document.querySelectorAll(selector)].map((each) => each.getBoundingClientRect().toJSON())",
        selector,
    )
    return found


def contrast(page: Page, text: str, ground: str) -> float:
    """WCAG's ratio between the colour of one element and the background of another; in a picture, between fills."""
    ratio: float = page.evaluate(_CONTRAST, [text, ground])
    return ratio


def painted_contrast(page: Page, bar: str, one: float, other: float) -> float:
    """WCAG's ratio between two places of a bar as the browser paints it. The places are shares of its width."""
    png = base64.b64encode(page.locator(bar).screenshot()).decode()
    ratio: float = page.evaluate(_PAINTED, [png, one, other])
    return ratio
