// Domains without labels: accuracy to expect, and whether the domain resembles the known ones.
const VERDICTS = {
  inside: { sign: '●', words: 'like the known domains', shape: 'circle' },
  edge: { sign: '◆', words: 'at the edge', shape: 'diamond' },
  outside: { sign: '▲', words: 'unlike the known domains', shape: 'triangle' },
  unknown: { sign: '?', words: 'cannot be told', shape: 'square' },
};

function showUnlabelled() {
  const { name, n, predicted, low, high, distance, verdict, reason } = contents.unlabelled;
  const rows = name.map((text, k) => ({ name: text, k }));
  const of = (values) => (row) => values[row.k];
  const [start] = range([...low, ...predicted], { from: 0, margin: 0.05 });
  const left = Math.floor(10 * start) / 10;
  const place = scale(left, 1);
  const picture = ({ k }) => {
    if (!known(predicted[k])) return DASH;
    const marks = known(low[k]) ? [{ kind: 'line', from: place(low[k]), to: place(high[k]), class: 'after' }] : [];
    marks.push({ kind: VERDICTS[verdict[k]].shape, at: place(predicted[k]), class: `after ${verdict[k] === 'inside' ? '' : 'open'}` });
    return strip(marks);
  };
  const expected = { label: 'Expected accuracy', value: of(predicted), first: 'ascending',
    cell: ({ k }) => twoLines(percent(predicted[k]), known(low[k]) ? `${percent(low[k], 0)} to ${percent(high[k], 0)}` : DASH) };
  const order = Object.keys(VERDICTS);
  const columns = [
    { label: 'Domain', value: (row) => row.name, first: 'ascending', cell: (row, id) => nameButton(row.name, id) },
    expected,
    { label: 'On a scale', wide: true, cell: picture, ends: ends(percent(left, 0), '100%') },
    { label: 'Verdict', class: 'words-cell', value: ({ k }) => order.indexOf(verdict[k]),
      cell: ({ k }) => [element('span', { class: `tag ${verdict[k]}` },
        element('span', { 'aria-hidden': 'true' }, `${VERDICTS[verdict[k]].sign} `), VERDICTS[verdict[k]].words),
      element('span', { class: 'reason' }, reason[k] || '')] },
    { label: 'Distance', value: of(distance), cell: ({ k }) => decimal(distance[k]) },
    { label: 'Rows', value: of(n), cell: ({ k }) => count(n[k]) },
  ];
  return new SortableTable(byId('unlabelled-table'), {
    caption: 'Domains without labels: expected accuracy and verdict', rows, columns,
    sort: { column: expected, direction: 'ascending' },
  });
}
