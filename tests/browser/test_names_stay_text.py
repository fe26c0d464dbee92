"""Names from the data are text, and nothing but the page's own scripts runs."""

from browser.pages import draw_all
from browser.sample_contents import HOSTILE_NAMES, sample_contents, with_change


def hostile():
    n = len(HOSTILE_NAMES)
    contents = with_change(sample_contents(n, names=HOSTILE_NAMES, n_unlabelled=n))
    contents["unlabelled"]["name"] = list(HOSTILE_NAMES)
    contents["unlabelled"]["reason"][:2] = HOSTILE_NAMES[:2]
    contents["title"] = HOSTILE_NAMES[3]
    contents["names"] = {"before": HOSTILE_NAMES[0], "after": HOSTILE_NAMES[4]}
    contents["verdict"]["headline"] = HOSTILE_NAMES[1]
    contents["verdict"]["sentences"] = [HOSTILE_NAMES[2]]
    contents["protocol"] = contents["methods"]["sentence"] = HOSTILE_NAMES[5]
    for row, name in zip(contents["methods"]["rows"], HOSTILE_NAMES, strict=False):
        row["method"] = name
    contents["change"]["title"] = HOSTILE_NAMES[1]
    contents["run"]["data"] = [[HOSTILE_NAMES[0], HOSTILE_NAMES[1]]]
    contents["run"]["command"] = contents["run"]["cite"] = HOSTILE_NAMES[6]
    contents["missing"] = {}
    return contents


def check_labels_of_points(page):
    """The labels that Plotly shows have names as they are, and are nothing but text."""
    labels = {}
    page.locator("#overview-before").scroll_into_view_if_needed()
    points = page.locator("#overview-before .point")
    for k in range(points.count()):
        box = points.nth(k).bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_timeout(60)
        found = page.locator("#overview-before .hovertext")
        if found.count():
            text = found.first.text_content()
            labels[text.split("\u2069")[0].lstrip("\u2068")] = found.first.inner_html()
    assert "<script>window.hacked = 1</script>" in labels
    assert any(label.startswith("<b>bold</b><a href") for label in labels)
    assert "&lt;i&gt; &amp; $x^2$ %{customdata}" in labels
    assert len(labels) >= 10
    assert not any("<a" in html or "<script" in html for html in labels.values())


def test_no_element_is_made_from_a_name(opened):
    page = opened(hostile())
    draw_all(page)
    made = "main :is(script, img, iframe, object, svg[onload], i, extra), main b, .plot a"
    assert page.locator(made).count() == 0
    shown = page.locator("#domains-table bdi").all_text_contents()
    assert "<script>window.hacked = 1</script>" in shown
    assert 'it\'s "quoted" `${window.hacke…}` {{ 7 * 7 }}' in shown
    assert "(no name)" in shown
    assert "مستشفى القاهرة (٢)" in shown
    assert max(map(len, shown)) <= 60
    titles = page.locator("#domains-table bdi[title]").evaluate_all("all => all.map(b => b.title)")
    assert "unbroken" * 25 in titles
    assert page.locator("h1").inner_text() == HOSTILE_NAMES[1]
    assert page.title().startswith("</script>")
    for text in ("<script>", "<img", "clinic", "unbroken"):
        page.locator("#domains-table button.name", has_text=text).first.click()
        assert text in page.locator("#chip-name").inner_text()
        assert page.locator("#chip :is(script, img)").count() == 0
        page.keyboard.press("Escape")
    check_labels_of_points(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    assert page.evaluate("window.hacked") is None


def test_a_name_of_20_000_characters(opened):
    names = ("x" * 20_000, "שלום " * 4000, *map(str, range(10)))
    page = opened(sample_contents(12, names=names))
    draw_all(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    rows = page.locator("#domains-table tbody tr")
    heights = rows.evaluate_all("all => all.map(row => row.offsetHeight)")
    assert max(heights) < 120


def test_the_policy_of_the_page_lets_nothing_in_or_out(opened):
    page = opened(sample_contents(4))
    blocked = page.evaluate(
        """async () => {
          const found = [];
          const note = (event) => found.push(event.effectiveDirective);
          document.addEventListener('securitypolicyviolation', note);
          const script = document.createElement('script');
          script.textContent = 'window.hacked = 1';
          document.body.append(script);
          const image = document.createElement('img');
          image.src = 'https://example.org/x.png';
          document.body.append(image);
          await fetch('https://example.org/').catch(() => 0);
          // The driver of the browser may use eval; what a timer calls may not.
          await new Promise((done) => setTimeout(() => {
            try { eval('window.hacked = 1'); } catch { found.push('eval'); }
            setTimeout(done, 100);
          }));
          return found;
        }"""
    )
    opened.complaints.clear()  # the browser reports what it has refused
    assert {"script-src-elem", "img-src", "connect-src", "eval"} <= set(blocked)
    assert page.evaluate("window.hacked") is None
