// Methods scored on domains that were left out, with paired intervals of the difference.
// MultiDomainTemperatureScaling may be broken before a capital.
function methodName(name) {
  return element('bdi', {}, ...breakable(plain(name).replace(/([a-z_+/-])([A-Z])/g, '$1\n$2')));
}

function showMethods() {
  const rows = contents.methods.rows.map((row) => ({ ...row, class: row.chosen ? 'chosen' : null }));
  const [low, high] = range(rows.flatMap((row) => [row.low, row.high, row.difference, 0]), { margin: 0 });
  const place = scale(low, high);
  const picture = (row) => {
    if (!known(row.difference)) return DASH;
    const marks = known(row.low) ? [{ kind: 'line', from: place(row.low), to: place(row.high), class: 'after' }] : [];
    marks.push({ kind: row.chosen ? 'diamond' : 'circle', at: place(row.difference), class: row.chosen ? 'after' : 'after open' });
    return strip(marks, place(0));
  };
  const isReference = (row) => row.method === 'TemperatureScaling' && row.difference === 0;
  const interval = (row) => (known(row.low) ? `${points(row.low)} to ${points(row.high)}` : DASH);
  const columns = [
    { label: 'Method', value: (row) => row.method, first: 'ascending',
      cell: (row) => element('div', {}, methodName(row.method), row.chosen ? element('span', { class: 'tag inside' }, 'chosen') : null) },
    { label: 'Compared with temperature scaling', wide: true, cell: picture, ends: ends(points(low), `${points(high)} points`) },
    { label: 'Difference', value: (row) => row.difference, first: 'ascending',
      cell: (row) => (isReference(row) ? 'reference' : twoLines(points(row.difference), interval(row))) },
    { label: 'ECE', value: (row) => row.ece, first: 'ascending', cell: (row) => points(row.ece) },
    { label: 'Excess', value: (row) => row.excess, first: 'ascending', cell: (row) => points(row.excess) },
    { label: 'NLL', value: (row) => row.nll, first: 'ascending', cell: (row) => decimal(row.nll, 3) },
    { label: 'Domains', value: (row) => row.n_domains, cell: (row) => count(row.n_domains) },
  ];
  return new SortableTable(byId('methods-table'), {
    caption: 'Methods on left-out domains', rows, columns, search: false,
    sort: { column: null, direction: 'ascending' },
  });
}
