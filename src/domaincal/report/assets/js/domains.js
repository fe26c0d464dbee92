// The table of domains, worst first.
function showDomains() {
  const { before, after, temperature } = domains;
  const rows = domains.name.map((name, k) => ({ name, k }));
  const of = (values) => (row) => values[row.k];
  let largest = 0;
  for (const ece of [before.ece, after.ece]) for (const x of ece) largest = Math.max(largest, x ?? 0);
  const place = scale(0, largest);
  const picture = ({ k }) => {
    const marks = [];
    if (known(after.low[k]) && known(after.high[k])) {
      marks.push({ kind: 'line', from: place(after.low[k]), to: place(after.high[k]), class: 'after' });
    }
    if (known(before.ece[k])) marks.push({ kind: 'square', at: place(before.ece[k]), class: 'before' });
    if (known(after.ece[k])) marks.push({ kind: 'circle', at: place(after.ece[k]), class: 'after' });
    return strip(marks, place(0));
  };
  const interval = (scores, k) => (known(scores.low[k]) ? `${points(scores.low[k])} to ${points(scores.high[k])}` : DASH);
  const ece = (scores) => ({ k }) => twoLines(points(scores.ece[k]), interval(scores, k));
  const excess = (scores) => ({ k }) => twoLines(points(scores.excess[k]), `floor ${points(scores.floor[k])}`);
  const worst = { label: 'Excess after', value: of(after.excess), cell: excess(after) };
  const columns = [
    { label: 'Domain', value: (row) => row.name, first: 'ascending',
      cell: (row, id) => element('div', {}, nameButton(row.name, id), element('span', { class: 'second' }, domains.kind[row.k])) },
    { label: 'Calibration error', wide: true, cell: picture, ends: ends('0', `${points(largest)} points`) },
    { label: 'Rows', value: of(domains.n), cell: ({ k }) => count(domains.n[k]) },
    { label: 'Accuracy', value: of(domains.accuracy), first: 'ascending', cell: ({ k }) => percent(domains.accuracy[k]) },
    { label: 'Confidence before', value: of(before.confidence), cell: ({ k }) => percent(before.confidence[k]) },
    { label: 'Confidence after', value: of(after.confidence), cell: ({ k }) => percent(after.confidence[k]) },
    { label: 'ECE before', value: of(before.ece), cell: ece(before) },
    { label: 'ECE after', value: of(after.ece), cell: ece(after) },
    { label: 'Excess before', value: of(before.excess), cell: excess(before) },
    worst,
  ];
  if (temperature) {
    columns.push({ label: 'Temperature', value: of(temperature.predicted),
      cell: ({ k }) => twoLines(decimal(temperature.predicted[k]), `learned ${decimal(temperature.learned[k])}`) });
  }
  for (const [label, key] of [['NLL', 'nll'], ['Brier', 'brier']]) {
    for (const [when, scores] of [['before', before], ['after', after]]) {
      columns.push({ label: `${label} ${when}`, value: of(scores[key]), cell: ({ k }) => decimal(scores[key][k], 3), extra: true });
    }
  }
  const kinds = new Set(domains.kind);
  const filters = kinds.size < 2 ? [] : [
    { label: 'all domains' },
    { label: 'unseen domains', test: ({ k }) => domains.kind[k] === 'unseen' },
    { label: 'known domains', test: ({ k }) => domains.kind[k] === 'known' },
  ];
  return new SortableTable(byId('domains-table'), {
    caption: 'Domains: accuracy, confidence and calibration error, before and after calibration',
    rows, columns, filters, sort: { column: worst, direction: 'descending' },
  });
}
