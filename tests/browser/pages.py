"""Contents that tests share, and waiting for what a page does."""

import time

from browser.sample_contents import sample_contents, with_change

CALM = with_change(sample_contents(12))


def until(page, condition):
    """Wait until an expression is true; ``page.wait_for_function`` needs eval, which is refused."""
    end = time.monotonic() + 60
    while not page.evaluate(condition):
        assert time.monotonic() < end, condition
        page.wait_for_timeout(20)


def draw_all(page):
    """Scroll to every figure, so that it is drawn."""
    for plot in page.locator(".plot").all():
        plot.scroll_into_view_if_needed()
    until(page, "[...document.querySelectorAll('.plot')].every(p => p.data)")
