// A table that can be sorted, filtered and paged; rows are objects with a name.
class SortableTable {
  // columns: {label, class, value(row), cell(row), first: 'ascending' | 'descending', extra, ends, wide}; rows
  // stay in their order while sort.column is null, and cannot be sorted if sort is null.
  constructor(host, { caption, rows, columns, sort = null, filters = [], size = 25, search = true }) {
    Object.assign(this, { host, caption, rows, columns, filters, size, search });
    this.sort = sort; // {column, direction}
    this.page = 0;
    this.text = '';
    this.filter = 0;
    this.extra = false;
    this.id = host.id;
    this.build();
    choice.onChange(() => { this.page = 0; this.show(); });
    this.show();
  }

  build() {
    const many = this.rows.length > 8;
    const tools = element('div', { class: 'tools' });
    if (this.search && many) {
      const input = element('input', {
        id: `${this.id}-search`, type: 'search', autocomplete: 'off', spellcheck: 'false',
        oninput: () => { this.text = input.value.toLowerCase(); this.page = 0; this.show(); },
      });
      tools.append(element('span', {}, element('label', { for: input.id }, 'Name contains'), ' ', input));
    }
    if (this.filters.length > 1) {
      const select = element('select', {
        id: `${this.id}-filter`,
        onchange: () => { this.filter = select.selectedIndex; this.page = 0; this.show(); },
      }, ...this.filters.map((f) => element('option', {}, f.label)));
      tools.append(element('span', {}, element('label', { for: select.id }, 'Show'), ' ', select));
    }
    if (this.columns.some((c) => c.extra)) {
      const button = element('button', {
        type: 'button', 'aria-pressed': 'false',
        onclick: () => {
          this.extra = !this.extra;
          button.setAttribute('aria-pressed', String(this.extra));
          this.head();
          this.show();
        },
      }, 'All scores');
      tools.append(button);
    }
    this.caption_ = element('caption', { class: 'unseen-text' }, this.caption);
    this.thead = element('thead');
    this.tbody = element('tbody');
    const table = element('table', {}, this.caption_, this.thead, this.tbody);
    const scroll = element('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': this.caption }, table);
    this.status = element('p', { class: 'status', role: 'status' });
    this.previous = element('button', { type: 'button', onclick: () => this.turn(-1) }, 'Previous');
    this.next = element('button', { type: 'button', onclick: () => this.turn(1) }, 'Next');
    this.pager = element('nav', { class: 'pager', 'aria-label': `Pages of: ${this.caption}` }, this.previous, this.next);
    this.host.replaceChildren(...(tools.children.length ? [tools] : []), scroll,
      element('div', { class: 'under' }, this.status, this.pager));
    this.head();
  }

  shownColumns() {
    return this.columns.filter((c) => this.extra || !c.extra);
  }

  head() {
    const row = element('tr');
    for (const column of this.shownColumns()) {
      const cell = element('th', { scope: 'col', class: column.wide ? 'wide-column' : column.class });
      if (column.value && this.sort) {
        const arrow = element('span', { class: 'arrow', 'aria-hidden': 'true' });
        const words = column.label.split(' ');
        const last = element('span', { class: 'last-word' }, words.pop(), arrow); // no line for the arrow alone
        cell.append(element('button', { type: 'button', class: 'sort', onclick: () => this.sortBy(column) },
          words.map((word) => `${word} `).join(''), last));
      } else {
        cell.append(column.label);
      }
      if (column.ends) cell.append(column.ends);
      cell.column = column;
      row.append(cell);
    }
    this.thead.replaceChildren(row);
    this.mark();
  }

  mark() {
    for (const cell of this.thead.rows[0].cells) {
      const sorted = this.sort && this.sort.column === cell.column;
      if (sorted) cell.setAttribute('aria-sort', this.sort.direction);
      else cell.removeAttribute('aria-sort');
      const arrow = cell.querySelector('.arrow');
      if (arrow) arrow.textContent = !sorted ? '' : this.sort.direction === 'ascending' ? '▲' : '▼';
    }
  }

  sortBy(column) {
    const opposite = { ascending: 'descending', descending: 'ascending' };
    const direction = this.sort.column === column ? opposite[this.sort.direction] : column.first || 'descending';
    this.sort = { column, direction };
    this.page = 0;
    this.mark();
    this.show();
  }

  turn(step) {
    this.page += step;
    this.show();
    // A button that has become disabled loses the focus: its neighbour takes it.
    if (document.activeElement === document.body || document.activeElement.disabled) {
      (step > 0 ? this.previous : this.next).focus();
    }
  }

  // Rows in order, those without a value last in both directions. A chosen domain is found whatever
  // the filters say; rows without a name are not about domains.
  found() {
    const filter = this.filters[this.filter];
    const rows = this.rows.filter((row) =>
      choice.name !== null ? !known(row.name) || row.name === choice.name
        : (!filter || !filter.test || filter.test(row)) && (!this.text || row.name.toLowerCase().includes(this.text)));
    if (!this.sort || !this.sort.column) return rows;
    const { column, direction } = this.sort;
    const sign = direction === 'ascending' ? 1 : -1;
    return rows.sort((a, b) => {
      const [x, y] = [column.value(a), column.value(b)];
      if (!known(x) || !known(y)) return known(y) - known(x);
      if (typeof x === 'string') return sign * collator.compare(x, y);
      return sign * (x - y);
    });
  }

  show() {
    const rows = this.found();
    const pages = Math.max(1, Math.ceil(rows.length / this.size));
    this.page = Math.min(Math.max(this.page, 0), pages - 1);
    const start = this.page * this.size;
    const shown = rows.slice(start, start + this.size);
    const columns = this.shownColumns();
    this.tbody.replaceChildren(...shown.map((row) => element('tr', { class: row.class }, ...columns.map((column, k) => {
      const cell = column.cell(row, this.id);
      return k === 0 ? element('th', { scope: 'row' }, cell) : element('td', { class: column.class }, ...[cell].flat());
    }))));
    const all = this.rows.length;
    this.status.textContent =
      rows.length === 0 ? (choice.name === null ? 'No row has such a name.' : 'The chosen domain is not in this table.')
      : rows.length <= this.size ? (rows.length === all ? '' : `${count(rows.length)} of ${count(all)} rows`)
      : `Rows ${count(start + 1)} to ${count(start + shown.length)} of ${count(rows.length)}`;
    this.pager.hidden = pages === 1;
    this.previous.disabled = this.page === 0;
    this.next.disabled = this.page === pages - 1;
  }
}

const collator = new Intl.Collator('en', { numeric: true });

// A number with a smaller second line, such as its interval.
function twoLines(main, second) {
  return [main, element('span', { class: 'second' }, second)];
}
