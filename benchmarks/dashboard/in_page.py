"""What is on a page, our own pictures included: they lie in shadow roots of their own."""

from __future__ import annotations

from playwright.sync_api import Browser, BrowserContext

# Keeps every shadow root from the start, so that `nodesOf` finds nodes in any of them.
KEEP_ROOTS = """(() => {
    const roots = [document];
    const attach = Element.prototype.attachShadow;
    Element.prototype.attachShadow = function (options) {
        const root = attach.call(this, options);
        roots.push(root);
        return root;
    };
    window.nodesOf = selector => roots
        .filter(root => root === document || root.host.isConnected)
        .flatMap(root => [...root.querySelectorAll(selector)]);
})()"""


def new_context(browser: Browser, width: int, height: int) -> BrowserContext:
    """A browser session with an empty cache, whose pages have `nodesOf(selector)`."""
    context = browser.new_context(viewport={"width": width, "height": height})
    context.add_init_script(KEEP_ROOTS)
    return context
