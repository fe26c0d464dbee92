"""Keyboard, screen reader, themes, phones, printers, and many domains."""

import itertools

from browser.pages import draw_all, until
from browser.sample_contents import HOSTILE_NAMES, sample_contents, with_change

FOCUSABLE = "a[href], button, input, select, summary, [tabindex='0']"
COUNT = """
  (selector) => {
    const hidden = (e) => e.disabled || e.closest('[hidden]') || !e.getClientRects().length
      || (e.closest('details:not([open])') && e.tagName !== 'SUMMARY');
    return [...document.querySelectorAll(selector)].filter((e) => !hidden(e)).length;
  }
"""


def everything(n_domains=18):
    names = (*HOSTILE_NAMES, *(f"Site {k}" for k in range(n_domains - len(HOSTILE_NAMES))))
    return with_change(sample_contents(n_domains, names=names))


def paper(page):
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_the_tab_key_reaches_everything(calm_page):
    page = calm_page
    expected = page.evaluate(COUNT, FOCUSABLE)
    page.evaluate(
        "window.seen = new Set(); document.addEventListener('focusin', e => seen.add(e.target))"
    )
    outline = (
        "(() => { const s = getComputedStyle(document.activeElement);"
        "return s.outlineStyle === 'none' ? 0 : parseFloat(s.outlineWidth); })()"
    )
    assert page.evaluate(
        "selector => document.querySelector(selector).className === 'skip'", FOCUSABLE
    )
    page.locator(".skip").focus()
    for k in range(expected - 1):
        page.keyboard.press("Tab")
        assert k % 5 or page.evaluate(outline) >= 2
    assert page.evaluate("seen.size") == expected
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_axe_finds_nothing_serious(opened, axe):
    page = opened(everything(), bypass_csp=True)
    draw_all(page)
    for summary in page.locator("summary").all():
        summary.click()
    page.locator("#domains-table button.name").nth(3).click()
    page.evaluate(axe)
    for width, scheme in ((1280, "light"), (390, "dark")):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        until(page, f"document.documentElement.dataset.theme === '{scheme}'")
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        serious = [
            (v["id"], [node["html"][:120] for node in v["nodes"][:3]])
            for v in found["violations"]
            if v["impact"] in ("serious", "critical")
        ]
        assert len(found["passes"]) > 20
        assert not serious, (width, scheme)


def test_figures_and_tables_say_what_they_are(calm_page):
    page = calm_page
    labels = page.locator(".plot").evaluate_all(
        "all => all.map(p => p.getAttribute('role') + ' ' + p.getAttribute('aria-label'))"
    )
    assert len(labels) == 6
    assert all(label.startswith("img ") and len(label) > 80 for label in labels)
    assert page.locator("table").count() == page.locator("table > caption").count() >= 5
    assert page.locator("tbody tr").count() == page.locator("tbody tr > th[scope=row]").count()
    for landmark in ("header", "nav[aria-label=Sections]", "main", "footer"):
        assert page.locator(landmark).count() == 1
    assert page.locator("h1").count() == 1
    assert page.locator("html[lang=en]").count() == 1


def test_the_theme_follows_the_system_and_the_button(opened):
    page = opened(sample_contents(4), color_scheme="dark")
    dark = paper(page)
    draw_all(page)
    ink = "document.querySelector('#overview-before .xtick text').style.fill"
    before = page.evaluate(ink)
    page.emulate_media(color_scheme="light")
    until(page, "document.documentElement.dataset.theme === 'light'")
    light = paper(page)
    assert light != dark
    assert page.evaluate(ink) != before
    page.get_by_role("button", name="Use dark colours").click()
    assert paper(page) == dark
    assert page.evaluate(ink) == before
    page.reload()
    assert paper(page) == dark
    page.get_by_role("button", name="Use light colours").click()
    assert paper(page) == light


def test_the_theme_works_where_storage_is_refused(opened):
    script = (
        "Object.defineProperty(window, 'localStorage', "
        "{get() { throw new DOMException('refused', 'SecurityError'); }})"
    )
    page = opened(sample_contents(4), script=script)
    light = paper(page)
    page.locator("#theme").click()
    assert paper(page) != light
    page.locator("#theme").click()
    assert paper(page) == light


def test_figures_fit_every_width_and_phones_do_not_scroll_sideways(opened, tmp_path):
    page = opened(everything(), has_touch=True)
    draw_all(page)
    for summary in page.locator("summary").all():
        summary.click()
    page.get_by_label("Name contains").first.fill("unbroken")
    page.locator("#domains-table button.name").first.click()
    for width in (1280, 390, 320):
        page.set_viewport_size({"width": width, "height": 844})
        until(
            page,
            "[...document.querySelectorAll('.plot')].every((p) => p.querySelector('.trace') &&"
            "Math.abs(p.clientWidth - p.querySelector('.main-svg').clientWidth) <= 3)",
        )
        until(page, f"document.documentElement.scrollWidth <= {width}")
        sign = page.locator(".state .sign").bounding_box()
        assert abs(sign["width"] - sign["height"]) < 0.5  # a circle beside text of two lines
        page.evaluate("window.scrollTo(500, 0)")
        assert page.evaluate("window.scrollX") == 0
        if width > 320:
            picture = page.screenshot(full_page=True, path=tmp_path / f"page-{width}.png")
            assert len(picture) > 100_000


def test_the_printed_page_is_light_whole_and_without_buttons(opened):
    page = opened(everything(40), color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    until(page, "[...document.querySelectorAll('.plot')].every(p => p.data)")
    assert page.locator("header button:visible, .tools:visible, .pager:visible").count() == 0
    assert page.locator("nav[aria-label=Sections]:visible").count() == 0
    ink = page.evaluate("getComputedStyle(document.querySelector('h1')).color")
    assert max(map(int, ink[4:-1].split(","))) < 80
    assert page.locator("#domains-table tbody tr").count() == 25
    drawn = page.evaluate("getComputedStyle(document.querySelector('.plot .xtick text')).fill")
    assert max(map(int, drawn[4:-1].split(","))) < 140
    page.set_viewport_size({"width": 680, "height": 900})  # A4 within its margins
    assert page.evaluate("document.documentElement.scrollWidth") <= 680
    assert len(page.pdf(format="A4")) > 50_000
    page.emulate_media(media="screen", color_scheme="dark")
    assert paper(page) != "rgb(255, 255, 255)"
    until(
        page, "[...document.querySelectorAll('.plot')].every(p => p.layout.width === p.clientWidth)"
    )


def test_5000_domains_are_few_enough_bytes_and_can_be_used(opened, tmp_path):
    contents = sample_contents(5000, n_unlabelled=500)
    page = opened(contents)
    (path,) = tmp_path.glob("*.html")
    assert path.stat().st_size < 12e6
    assert page.locator("#domains-table .status").inner_text() == "Rows 1 to 25 of 5,000"
    assert page.locator("#picker option").count() == 501
    page.locator("#domains-table thead button").first.click()
    names = page.locator("#domains-table button.name").all_inner_texts()
    numbered = [int(n.removeprefix("Site Aarhus") or 0) for n in names]
    assert all(a < b for a, b in itertools.pairwise(numbered))
    page.locator("#overview-after").scroll_into_view_if_needed()
    until(page, "document.querySelector('#overview-after').data")
    assert page.locator("#overview-after .point").count() == 5000
    page.locator("#domains-table button.name").nth(7).click()
    assert page.locator("#domains-table tbody tr").count() == 1
    assert page.evaluate("document.querySelectorAll('*').length") < 30_000
