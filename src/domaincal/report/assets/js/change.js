// What changed since an earlier page, domain by domain.
function showChange() {
  const value = (key) => (row) => row[key];
  const pair = (label, key, text) => [
    { label: `${label}, then`, value: value(`${key}_before`), cell: (row) => text(row[`${key}_before`]) },
    { label: `${label}, now`, value: value(`${key}_after`), cell: (row) => text(row[`${key}_after`]) },
  ];
  const change = (row) => (known(row.ece_before) && known(row.ece_after) ? row.ece_after - row.ece_before : null);
  const signed = (x) => (x > 0 && points(x) !== '0.0' ? `+${points(x)}` : points(x));
  const columns = [
    { label: 'Domain', value: (row) => row.name, first: 'ascending', cell: (row, id) => nameButton(row.name, id) },
    ...pair('ECE', 'ece', points), { label: 'Change of ECE', value: change, cell: (row) => signed(change(row)) }, ...pair('Accuracy', 'accuracy', percent), ...pair('Rows', 'n', count),
  ];
  return new SortableTable(byId('change-table'), {
    caption: 'Domains of both pages, then and now', columns, rows: contents.change.rows,
    sort: { column: null, direction: 'descending' }, size: 10,
  });
}
