// The table of domains, worst first.
function showDomains() {
  const { before, after, temperature } = domains;
  const rows = domains.name.map((name, k) => ({ name, k }));
  const of = (values) => (row) => values[row.k];
  // Confidence minus accuracy: above zero, the model is too sure.
  const off = (scores) => domains.accuracy.map((accuracy, k) =>
    (known(accuracy) && known(scores.confidence[k]) ? scores.confidence[k] - accuracy : null));
  const [offBefore, offAfter] = [off(before), off(after)];
  const distance = (x) => (known(x) ? Math.abs(x) : null);
  const words = (x) => (known(x) ? `${points(Math.abs(x))} too ${x > 0 ? 'high' : 'low'}` : DASH);
  const [least, most] = range([...offBefore, ...offAfter, 0], { margin: 0.02 });
  const place = scale(least, most);
  const picture = ({ k }) => {
    const marks = [];
    if (known(offBefore[k]) && known(offAfter[k])) {
      marks.push({ kind: 'line', from: place(offBefore[k]), to: place(offAfter[k]), class: 'way' });
    }
    if (known(offBefore[k])) marks.push({ kind: 'square', at: place(offBefore[k]), class: 'before' });
    if (known(offAfter[k])) marks.push({ kind: 'circle', at: place(offAfter[k]), class: 'after' });
    return strip(marks, place(0));
  };
  const interval = (scores, k) => (known(scores.low[k]) ? `${points(scores.low[k])} to ${points(scores.high[k])}` : DASH);
  const ece = (scores) => ({ k }) => twoLines(points(scores.ece[k]), interval(scores, k));
  const excess = (scores) => ({ k }) => twoLines(points(scores.excess[k]), `floor ${points(scores.floor[k])}`);
  const worst = { label: 'Confidence off by', wide: true, value: ({ k }) => distance(offAfter[k]), cell: picture,
    ends: ends(points(least), `${points(most)} points`) };
  const several = new Set(domains.kind).size > 1;
  const columns = [
    { label: 'Domain', value: (row) => row.name, first: 'ascending',
      cell: (row, id) => element('div', {}, nameButton(row.name, id), several ? element('span', { class: 'second' }, domains.kind[row.k]) : null) },
    worst,
    { label: 'Rows', value: of(domains.n), cell: ({ k }) => count(domains.n[k]) },
    { label: 'Accuracy', value: of(domains.accuracy), first: 'ascending', cell: ({ k }) => percent(domains.accuracy[k]) },
    { label: 'Confidence before', value: of(before.confidence),
      cell: ({ k }) => twoLines(percent(before.confidence[k]), words(offBefore[k])) },
    { label: 'Confidence after', value: of(after.confidence),
      cell: ({ k }) => twoLines(percent(after.confidence[k]), words(offAfter[k])) },
    { label: 'ECE before', value: of(before.ece), cell: ece(before) },
    { label: 'ECE after', value: of(after.ece), cell: ece(after) },
    { label: 'Excess before', value: of(before.excess), cell: excess(before) },
    { label: 'Excess after', value: of(after.excess), cell: excess(after) },
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
  const filters = !several ? [] : [
    { label: 'all domains' },
    { label: 'unseen domains', test: ({ k }) => domains.kind[k] === 'unseen' },
    { label: 'known domains', test: ({ k }) => domains.kind[k] === 'known' },
  ];
  return new SortableTable(byId('domains-table'), {
    caption: 'Domains: accuracy, confidence and calibration error before and after calibration',
    rows, columns, filters, sort: { column: worst, direction: 'descending' },
  });
}
