"""Pages for tests: read as a document, and opened in a real browser."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

VOID = {"meta", "input", "br", "hr", "img", "link"}


class Document(HTMLParser):
    """The tags of a page, each closed as HTML wants it."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs), (tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("style", "script"):
            self.words.append(data)

    def of(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag == name]

    @property
    def text(self) -> str:
        return "".join(self.words)


def opened(browser: Browser, address: str, **options: Any) -> Page:
    """The page in a window of its own, in which any complaint or request of the page fails the test."""
    context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, "reduced_motion": "reduce", **options})
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: said.append(request.url) if request.url != address else None)
    page.goto(address)
    assert said == []
    return page


CONTRAST = """() => {
  const luminance = (c) => c.map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const read = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const poor = new Set();
  for (const node of document.querySelectorAll('main *, .top *, footer *')) {
    const own = [...node.childNodes].some(c => c.nodeType === 3 && c.textContent.trim());
    if (!own || !node.checkVisibility() || node.closest('.spoken, .skip')) continue;
    const style = getComputedStyle(node);
    let behind = [0, 0, 0, 0];
    for (let up = node; up && behind[3] === 0; up = up.parentElement) {
      const [r, g, b, a = 1] = read(getComputedStyle(up).backgroundColor);
      behind = [r, g, b, a];
    }
    const box = node.closest('svg') ? node.closest('g')?.querySelector('.box') : null;
    if (box && getComputedStyle(box).fill !== 'none') behind = read(getComputedStyle(box).fill);
    const colour = read(node.closest('svg') ? style.fill : style.color);
    const [a, b] = [luminance(colour.slice(0, 3)), luminance(behind.slice(0, 3))].sort((x, y) => y - x);
    const ratio = (a + .05) / (b + .05);
    if (ratio < 4.5) poor.add(`${node.tagName}.${node.getAttribute('class')} ${ratio.toFixed(2)}`);
  }
  return [...poor];
}"""


def shown(page: Page, what: str) -> list[str]:
    """The codes of what of that kind can be seen."""
    found: list[str] = page.evaluate(
        f"[...document.querySelectorAll('{what}')].filter(e => e.checkVisibility()).map(e => e.dataset.code)"
    )
    return found
