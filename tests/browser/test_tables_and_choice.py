"""Sorting, filtering and paging of tables; one domain in every table and figure."""

from browser.pages import CALM, until
from browser.sample_contents import sample_contents, without_labels

TABLE = "#domains-table"
FIGURES = ("#overview-before", "#overview-after", "#temperatures-plot")


def names(page, table=TABLE):
    return page.locator(f"{table} tbody button.name").all_inner_texts()


def column(page, label, table=TABLE):
    """First lines of the cells below a heading."""
    heads = page.locator(f"{table} thead th").all_inner_texts()
    (k,) = [k for k, head in enumerate(heads) if head.startswith(label)]
    cells = page.locator(f"{table} tbody tr > :nth-child({k + 1})").all_inner_texts()
    return [cell.splitlines()[0] for cell in cells]


def numbers(cells):
    return [float(c.rstrip("%").replace("\N{MINUS SIGN}", "-").replace(",", "")) for c in cells]


def draw(page, figure):
    page.locator(figure).scroll_into_view_if_needed()
    page.wait_for_selector(f"{figure} .point", state="attached")


def hoverable(page, figure):
    """Number of points of a figure that have a name."""
    return page.evaluate(
        "id => document.querySelector(id).data.filter(t => t.hoverinfo === 'text')"
        ".reduce((n, t) => n + t.x.length, 0)",
        figure,
    )


def test_the_worst_domain_comes_first(calm_page):
    domains = CALM["domains"]
    confidence = domains["after"]["confidence"]
    off = {
        name: abs(c - a)
        for name, c, a in zip(domains["name"], confidence, domains["accuracy"], strict=True)
    }
    expected = sorted(off, key=off.__getitem__, reverse=True)
    assert names(calm_page) == expected
    (name,) = [s for s in CALM["verdict"]["sentences"] if "worst" in s]
    unseen = [n for n in expected if domains["kind"][domains["name"].index(n)] == "unseen"]
    assert unseen[0] in name


SORT_ALL = """
  (table) => [...document.querySelectorAll(`${table} thead th`)].flatMap((head, k) =>
    !head.querySelector('button') ? [] : [0, 1].map(() => {
      head.querySelector('button').click();
      const cells = [...document.querySelectorAll(`${table} tbody tr > :nth-child(${k + 1})`)];
      const sorted = [...document.querySelectorAll(`${table} [aria-sort]`)];
      const label = head.querySelector('button').innerText.replace(/\\s+/g, ' ');
      return [label.replace(/[▲▼]/, '').trim(), sorted.length,
        head.getAttribute('aria-sort'), cells.map((cell) => cell.innerText.split('\\n')[0])];
    }))
"""


def test_every_column_sorts_in_both_directions(opened):
    contents = sample_contents(12)
    contents["domains"]["after"]["ece"][3] = None
    page = opened(contents)
    page.get_by_role("button", name="All scores").click()
    found = page.evaluate(SORT_ALL, TABLE)
    assert len(found) == 2 * 15
    directions = {}
    for label, n_sorted, direction, cells in found:
        assert n_sorted == 1
        directions.setdefault(label, set()).add(direction)
        if label == "Confidence off by":
            continue  # a picture; its order is that of the test above
        if label == "ECE after":
            assert cells.pop() == "\N{EN DASH}"  # the last, in both directions
        values = [c.casefold() for c in cells] if label == "Domain" else numbers(cells)
        assert values == sorted(values, reverse=direction == "descending"), label
    assert all(both == {"ascending", "descending"} for both in directions.values())


def test_filters_pages_and_a_few_diagrams_of_many_domains(opened):
    contents = sample_contents(60)
    for key in ("domain", "before", "after"):
        del contents["reliability"][key][3:]
    with_diagram = contents["reliability"]["domain"]
    without = contents["domains"]["name"][min(set(range(60)) - set(with_diagram))]
    page = opened(contents)
    status = page.locator(f"{TABLE} .status")
    assert status.inner_text() == "Rows 1 to 25 of 60"
    following = page.locator(TABLE).get_by_role("button", name="Next")
    seen = names(page)
    following.click()
    seen += names(page)
    following.click()
    seen += names(page)
    assert sorted(seen) == sorted(contents["domains"]["name"])
    assert following.is_disabled()
    assert page.evaluate("document.activeElement.textContent") == "Previous"
    page.get_by_label("Name contains").first.fill("GHENT")
    assert set(names(page)) == {n for n in contents["domains"]["name"] if "Ghent" in n}
    page.get_by_label("Name contains").first.fill("")
    page.locator(f"{TABLE} select").select_option("known domains")
    assert status.inner_text() == "15 of 60 rows"
    page.get_by_label("Name contains").first.fill("nothing like it")
    assert status.inner_text() == "No row has such a name."

    page.locator(f"{TABLE} select").select_option("all domains")
    page.get_by_label("Name contains").first.fill(without)
    page.locator(f"{TABLE} button.name").first.click()
    assert page.locator("#picker option").count() == 4
    assert page.get_by_text("3 domains with the largest error").is_visible()


def test_a_click_on_a_point_shows_one_domain_everywhere(calm_page):
    page = calm_page
    for figure in FIGURES:
        draw(page, figure)
        assert hoverable(page, figure) == 12
    draw(page, "#overview-before")
    point = page.locator("#overview-before .point").nth(5)
    point.hover(force=True)
    label = page.wait_for_selector("#overview-before .hovertext").text_content()
    (name,) = [n for n in CALM["domains"]["name"] if f"\u2068{n}\u2069" in label]
    box = point.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)

    assert page.locator("#chip").inner_text().split("\n")[0] == f"only {name}"
    assert names(page) == [name]
    assert set(names(page, "#change-table")) <= {name}
    assert names(page, "#unlabelled-table") == []
    for figure in FIGURES:
        assert hoverable(page, figure) == 1
        assert name in page.locator(figure).get_attribute("aria-label")
    assert page.locator("#picker option:checked").inner_text() == name
    assert name in page.locator("#reliability-before").get_attribute("aria-label")
    assert name in page.locator("#reliability-table caption").text_content()
    page.get_by_role("button", name="show all").click()
    assert not page.locator("#chip").is_visible()
    assert len(names(page)) == 12
    assert [hoverable(page, figure) for figure in FIGURES] == [12, 12, 12]


def test_small_tables_say_what_their_numbers_mean(calm_page):
    page = calm_page
    differences = column(page, "Difference", "#methods-table")
    assert differences[1] == "reference"
    assert "reference" not in differences[:1] + differences[2:]
    reached = column(page, "Accept before", "#risk-table")
    assert reached[-1] == "none"
    assert all(share.endswith("%") for share in reached[:-1])
    assert column(page, "From confidence", "#risk-table")[-1] == "\N{EN DASH}"
    then, now, change = (
        numbers(column(page, label, "#change-table"))
        for label in ("ECE, then", "ECE, now", "Change of ECE")
    )
    assert any(change)
    assert all(abs(b - a - c) < 0.11 for a, b, c in zip(then, now, change, strict=True))
    heads = page.locator("#unlabelled-table thead th").all_inner_texts()
    assert [head.split()[0] for head in heads[:2]] == ["Domain", "Expected"]


# Rectangles of each text between two places where it may be broken.
PIECES = """
  (selector) => [...document.querySelectorAll(selector)].flatMap((bdi) => [...bdi.childNodes])
    .filter((node) => node.nodeType === Node.TEXT_NODE).map((node) => {
      const range = document.createRange();
      range.selectNodeContents(node);
      return [node.textContent, range.getClientRects().length];
    })
"""


def test_names_are_broken_between_words_on_phones(opened):
    page = opened(sample_contents(3, names=("motion_blur-4", "defocus_blur", "a.b")), width=390)
    pieces = page.evaluate(PIECES, "tbody th bdi")
    for word in ("motion_", "4", "a.", "b", "Temperature", "Scaling", "Domain"):
        assert [word, 1] in pieces
    assert all(lines == 1 for text, lines in pieces if " " not in text)


def test_a_tap_on_a_point_is_one_click(opened):
    page = opened(sample_contents(6), width=390, has_touch=True, is_mobile=True)
    draw(page, "#overview-after")
    box = page.locator("#overview-after .point").first.bounding_box()
    page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    until(page, "!document.querySelector('#chip').hidden")
    page.wait_for_timeout(450)
    assert page.locator("#chip").is_visible()
    assert len(names(page)) == 1


def test_a_name_in_a_table_does_by_keyboard_what_a_point_does(calm_page):
    page = calm_page
    button = page.locator(f"{TABLE} button.name").nth(4)
    name = button.inner_text()
    button.focus()
    page.keyboard.press("Enter")
    assert names(page) == [name]
    assert page.evaluate("document.activeElement.textContent") == name
    assert page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"
    assert name in page.locator("#announcement").text_content()
    page.keyboard.press("Space")
    assert len(names(page)) == 12
    assert page.evaluate("document.activeElement.textContent") == name
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    assert not page.locator("#chip").is_visible()
    assert page.evaluate("document.activeElement.textContent") == name


def test_the_picker_shows_the_bins_of_a_domain(calm_page):
    page = calm_page
    page.locator("#reliability summary").click()
    rows = page.locator("#reliability-table tbody tr")
    together = rows.all_inner_texts()
    name = CALM["domains"]["name"][7]
    page.get_by_label("Domain", exact=True).select_option(name)
    place = CALM["reliability"]["domain"].index(7)
    bins = CALM["reliability"]["before"][place]
    shown = numbers(c for c in column(page, "Rows before", "#reliability-table") if c[0].isdigit())
    assert shown == bins["n"]
    assert page.locator("#chip-name").inner_text() == name
    page.get_by_label("Domain", exact=True).select_option(index=0)
    assert rows.all_inner_texts() == together
    assert not page.locator("#chip").is_visible()


def test_a_domain_without_labels_has_no_diagram(calm_page):
    page = calm_page
    page.locator("#unlabelled-table button.name").first.click()
    assert page.get_by_text("it has no labels").is_visible()
    assert "not in this table" in page.locator(f"{TABLE} .status").inner_text()
    assert page.locator("#methods .about-all").is_visible()


def check_links(page, n_sections):
    links = page.locator("nav[aria-label=Sections] a")
    targets = links.evaluate_all("all => all.map(a => a.getAttribute('href'))")
    sections = page.locator("main > section").evaluate_all("all => all.map(s => '#' + s.id)")
    assert targets == sections
    assert len(targets) == n_sections
    for target in targets[1:]:
        assert page.locator(f"{target} a.anchor").get_attribute("href") == target
    links.nth(2).click()
    top = page.locator(targets[2]).bounding_box()["y"]
    at_end = "innerHeight + scrollY >= document.documentElement.scrollHeight - 2"
    assert 0 <= top < 200 or page.evaluate(at_end)


def test_every_section_has_a_link_that_leads_to_it(calm_page):
    check_links(calm_page, 10)


def test_what_cannot_be_shown_is_said_at_its_anchor(opened):
    page = opened(without_labels(sample_contents(12)))
    for section in ("domains", "overview", "reliability", "methods", "temperatures", "risk"):
        assert "Add labelled rows" in page.locator(f"#{section}").inner_text(timeout=8000)
    assert page.locator("#unlabelled-table tbody tr").count() == 4
    check_links(page, 4)


def test_one_domain_of_one_row(opened):
    contents = sample_contents(1, n_unlabelled=0)
    domains = contents["domains"]
    domains["n"] = [1]
    for when in ("before", "after"):
        for key in ("low", "high", "floor", "excess"):
            domains[when][key] = [None]
    domains["temperature"] = {key: [None] for key in domains["temperature"]}
    for part in ("methods", "risk"):
        contents[part] = None
    page = opened(contents)
    assert len(names(page)) == 1
    draw(page, "#overview-after")
    assert "floor \N{EN DASH}" in page.locator(f"{TABLE} tbody").inner_text()
